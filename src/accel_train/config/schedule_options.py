"""The config of the command `schedule`: a training run, and what to draw of it."""

from pathlib import Path
from typing import Annotated

from pydantic import field_validator

from accel_train.config.fields import Config, Everyday, Placement, PositiveInt, UserPath
from accel_train.config.options import TrainConfig
from accel_train.system.atomic_files import refuse_unwritable


class Drawing(Config):
    """What is drawn, and of how many images."""

    panel = "Schedule"

    images: Annotated[PositiveInt | None, Everyday()] = None
    """Training images, if the data are not here. Default: as many as --data has."""
    png: Annotated[UserPath | None, Placement(), Everyday()] = None
    """PNG file to write with the drawing."""

    @field_validator("png")
    @classmethod
    def _is_file(cls, value: Path | None) -> Path | None:
        if value is not None:
            refuse_unwritable(value, "--png", ".png")
        return value


class ScheduleConfig(Drawing, TrainConfig):
    """The learning rate of a training run."""
