"""The config of the command `doctor`."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from accel_train.config.fields import Config, Everyday, Placement, UserPath
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


class Doctor(Config):
    """What to examine."""

    panel = "Doctor"

    accelerate_config: Annotated[UserPath | None, Everyday(), Placement()] = None
    """YAML file of accelerate launch to examine. Default: what `accelerate config` has written, if there is no
    launcher."""
    timeout: Annotated[int, Field(gt=0, le=1_000_000), Everyday(), Placement()] = 60
    """Most seconds for each check, and to wait for the other processes."""

    @field_validator("accelerate_config")
    @classmethod
    def _is_there(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            wrong = "this is a folder" if value.is_dir() else "there is no such file"
            raise UserError(f"--accelerate-config {value}: {wrong}", "give a file for accelerate launch")
        return value


class DoctorConfig(Doctor, TrainConfig):
    """An examination of the machines that a training run would use."""
