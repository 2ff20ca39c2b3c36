"""The config of a replay: updates of a run that are computed again."""

from typing import Annotated

from pydantic import Field

from accel_train.config import panels
from accel_train.config.fields import Config, Name, Placement, PositiveInt, UserName, UserPath, Workers


class Replay(Config):
    """What a replay shows, and where it finds what a run does not hold."""

    panel = "Replay"

    show: Annotated[UserPath | None, Placement()] = None
    """PNG file to write with the images of the update as the model was given them, at most 256."""
    data: UserName | None = None
    """The run's data, if they have moved."""
    model: Name | None = None
    """my.module:function, if the run's model is your own. A run folder is not trusted to name code."""
    workers: Workers = "auto"
    """Loader workers per process, as for train."""


class ReplayConfig(panels.Machine, Replay):
    """A replay of an update of a run: by default with the processes, threads and device of the run."""

    processes: Annotated[PositiveInt | None, Placement()] = None
    """Processes to start on this machine. Default: as many as the run had."""
    threads: Annotated[int | None, Field(gt=0, le=1024), Placement()] = None
    """CPU threads per process, which may change the last bits. Default: the run's."""
