"""The options of the data: a panel of the help."""

from typing import Annotated

from pydantic import Field

from accel_train.config.fields import (
    Augmentation,
    Cache,
    Config,
    Everyday,
    FreeOnResume,
    Placement,
    PositiveInt,
    UserName,
    UserPath,
    Workers,
)


class Data(Config):
    """What to train on, and how the images are read."""

    panel = "Data"

    data: Annotated[UserName, Everyday()] = "digits"
    """Data set: digits, fashion-mnist, mnist, kmnist, cifar10, cifar100, svhn, an image folder (DIR/train/CLASS/… and
    DIR/val/CLASS/…, or DIR/CLASS/…), synthetic[:N,C,H,W,K] or my.module:function."""
    augment: Annotated[Augmentation | None, Everyday()] = None
    """Augmentation level; what each does depends on the data set. Default: by data set."""
    image_size: Annotated[int | None, Field(gt=0, le=10_000), Everyday()] = None
    """Height and width of the model's input, in pixels. Default: the data's, or the model's if fixed."""
    data_dir: Annotated[UserPath | None, FreeOnResume()] = None
    """Folder in which data sets are stored, or to which they are downloaded. Default: ~/.cache/accel_train."""
    val_fraction: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Fraction held out for validation, in a folder without train/ and val/. Default: 0.2."""
    limit: PositiveInt | None = None
    """Use only this many training and validation images, evenly spaced, for a quick test. Default: all."""
    workers: Workers = "auto"
    """Loader workers per process; they do not change results. auto: by cores and device, 0 for in-memory data."""
    cache: Annotated[Cache, Placement()] = "auto"
    """Where in-memory images are stored: on each device, in RAM shared by all processes of a machine (ram), or in each
    process (off). auto: the first of these that works."""
