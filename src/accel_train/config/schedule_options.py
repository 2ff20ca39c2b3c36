"""The config of the command `schedule`: a training run, and what to draw of it."""

from typing import Annotated

from accel_train.config.fields import Config, Everyday, Placement, Plot, PositiveInt
from accel_train.config.options import TrainConfig


class Drawing(Config):
    """What is drawn, and of how many images."""

    panel = "Schedule"

    images: Annotated[PositiveInt | None, Everyday()] = None
    """Training images, if the data are not here. Default: as many as --data has."""
    png: Annotated[Plot | None, Placement(), Everyday()] = None
    """PNG file to write with the drawing."""


class ScheduleConfig(Drawing, TrainConfig):
    """The learning rate of a training run."""
