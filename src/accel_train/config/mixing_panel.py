"""The options of mixed images and of classes of different sizes: a panel of the help."""

from typing import Annotated, Literal

from pydantic import Field

from accel_train.config.fields import Config

Alpha = Annotated[float, Field(ge=0, le=100)]
"""Both parameters of a beta distribution; 0: none."""


class Mixing(Config):
    """How images are mixed, repeated and balanced by class."""

    panel = "Mixing and balance"

    mixup: Alpha = 0.0
    """Mixup: average images in pairs, and their labels in the same shares, drawn from Beta(ALPHA, ALPHA), such as 0.2.
    0: none. With --cutmix each micro-batch gets one of the two."""
    cutmix: Alpha = 0.0
    """CutMix: replace a box of each image by that of another one, and mix their labels by area; its share is drawn
    from Beta(ALPHA, ALPHA), such as 1. 0: none."""
    repeated_augmentation: Annotated[int, Field(gt=0, le=100)] = 1
    """Use each image N times in an update, augmented differently; an epoch keeps its length and has fewer images."""
    balance: Literal["none", "weights", "sampling"] = "none"
    """For classes of different sizes: weights of the loss by class, or an order of the images in which all classes are
    equally frequent."""
