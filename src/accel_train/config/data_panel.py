"""The options of the data: a panel of the help."""

from typing import Annotated, Literal

from pydantic import Field

from accel_train.config.defaults import MOST_PIXELS
from accel_train.config.fields import (
    Cache,
    Config,
    Everyday,
    FreeOnResume,
    Name,
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
    DIR/val/CLASS/…, or DIR/CLASS/…, or any with --labels), hf:NAME, synthetic[:N,C,H,W,K] or my.module:function."""
    image_size: Annotated[int | None, Field(gt=0, le=10_000), Everyday()] = None
    """Height and width of the model's input, in pixels. Default: that of --weights, else the data's, or the model's if
    fixed."""
    data_dir: Annotated[UserPath | None, FreeOnResume()] = None
    """Folder in which data sets are stored, or to which they are downloaded. Default: ~/.cache/accel_train."""
    labels: UserPath | None = None
    """CSV or Parquet file with the label of each picture of --data DIR: columns file, label and perhaps split. Default:
    the folders of the pictures are their labels."""
    label_column: Name | None = None
    """Column of the labels, in the file of --labels or a data set of hf:NAME. Default: label."""
    val_fraction: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Fraction held out for validation, of data without splits. Default: 0.2."""
    limit: PositiveInt | None = None
    """Use only this many training and validation images, evenly spaced, for a quick test. Default: all."""
    on_bad_image: Literal["stop", "skip"] = "stop"
    """What to do about pictures that cannot be read. stop: end with an error. skip: decode all pictures before
    training, leave the bad ones out and list them in bad_images.txt; takes as long as reading the data once."""
    max_pixels: Annotated[PositiveInt, FreeOnResume()] = MOST_PIXELS
    """Most pixels of a picture: one that has more, or claims to, is bad; it is not decoded."""
    workers: Workers = "auto"
    """Loader workers per process; they do not change results. auto: by cores and device, 0 for in-memory data."""
    cache: Annotated[Cache, Placement()] = "auto"
    """Where in-memory images are stored: on each device, in RAM shared by all processes of a machine (ram), or in each
    process (off). auto: the first of these that works."""
