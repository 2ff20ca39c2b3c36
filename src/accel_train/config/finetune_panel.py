"""The options of fine-tuning: a panel of the help."""

from typing import Annotated, Self

from pydantic import BeforeValidator, Field, PositiveFloat, model_validator

from accel_train.config.fields import Config, PositiveInt
from accel_train.errors import UserError

BACKBONE = "backbone"
"""Value of --freeze: all layers but the head."""


def _layers(value: object) -> object:
    if value is None or value == BACKBONE or (str(value).isdecimal() and int(str(value)) > 0):
        return value if value is None else str(value)
    raise UserError(
        f"--freeze {value}: must be {BACKBONE} or a number of layers, from 1",
        f"{BACKBONE} trains the head alone; leave it out to train all layers",
    )


class FineTuning(Config):
    """How weights that were trained on other images are trained on these."""

    panel = "Fine-tuning"

    freeze: Annotated[str | None, BeforeValidator(_layers)] = None
    """Layers that do not train, and run as in evaluation: backbone, which is all but the head, or a number of layers
    from the input. Default: none; backbone with --unfreeze-at."""
    unfreeze_at: PositiveInt | None = None
    """Train the frozen layers too after this many epochs. Default: never."""
    layer_decay: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Factor from the learning rate of each layer to that of the layer before it, such as 0.75; the head has the full
    rate."""
    head_lr_multiplier: PositiveFloat = 1.0
    """Factor of the head's learning rate, such as 10."""

    @model_validator(mode="after")
    def _refuse_decay_without_effect(self) -> Self:
        if self.freeze == BACKBONE and self.unfreeze_at is None and self.layer_decay != 1:
            raise UserError(
                f"--layer-decay {self.layer_decay:g} has no effect with --freeze {BACKBONE}: only the head trains",
                "add --unfreeze-at, or leave one of them out",
            )
        return self
