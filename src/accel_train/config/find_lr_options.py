"""The config of the command `find-lr`: a training run, and which learning rates to try."""

from typing import Annotated, Self

from pydantic import Field, PositiveFloat, model_validator

from accel_train.config.fields import Config, Everyday, Placement, Plot
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


class FindLr(Config):
    """Which learning rates to try."""

    panel = "LR range test"

    start_lr: Annotated[PositiveFloat | None, Everyday()] = None
    """Learning rate of the first update. Default: a thousandth of the usual one of model and optimizer."""
    end_lr: Annotated[PositiveFloat | None, Everyday()] = None
    """Learning rate of the last update, unless the loss diverges before. Default: a hundred times the usual one."""
    updates: Annotated[int | None, Field(ge=20, le=100_000), Everyday()] = None
    """Updates; the learning rate rises by the same factor in each. Default: 100, at most those of the run."""
    png: Annotated[Plot | None, Placement(), Everyday()] = None
    """PNG file to write with the plot."""

    @model_validator(mode="after")
    def _refuse_falling(self) -> Self:
        if self.start_lr is not None and self.end_lr is not None and self.start_lr >= self.end_lr:
            raise UserError(
                f"--start-lr {self.start_lr:g} is not below --end-lr {self.end_lr:g}",
                f"use --start-lr {self.end_lr:g} --end-lr {self.start_lr:g}"
                if self.start_lr > self.end_lr
                else f"use --end-lr {100 * self.end_lr:g}",
            )
        return self


class FindLrConfig(FindLr, TrainConfig):
    """A search for the learning rate of a training run."""
