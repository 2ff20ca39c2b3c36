"""The panel of the trackers."""

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from accel_train.config.fields import Config, FreeOnResume, split_list
from accel_train.config.trackers import NO_TRACKER, TRACKERS
from accel_train.errors import UserError

if TYPE_CHECKING:
    TrackerName = str
else:  # the rows of a table
    TrackerName = Literal[(*TRACKERS, NO_TRACKER)]


class Tracking(Config):
    """Where the metrics of a run go besides its folder."""

    panel = "Tracking"

    tracker: Annotated[tuple[TrackerName, ...] | None, FreeOnResume(), BeforeValidator(split_list)] = None
    """Send config, curves and pictures to TensorBoard or another tracker; repeat it for several. Default: none."""
    tracker_project: Annotated[str | None, FreeOnResume(), Field(min_length=1)] = None
    """Project of wandb and trackio, experiment of mlflow, that lists the run. Default: accel_train, unless their
    environment variables name another."""

    @model_validator(mode="after")
    def _refuse_others_with_none(self) -> Self:
        if self.tracker and NO_TRACKER in self.tracker and len(self.tracker) > 1:
            raise UserError(f"--tracker {NO_TRACKER} excludes all others", "leave it or the others out")
        return self
