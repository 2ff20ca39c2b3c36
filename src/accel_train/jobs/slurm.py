"""A batch script for SLURM: srun starts the processes, and the job queues itself again until the run is complete."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from accel_train.config.durations import parse_duration
from accel_train.jobs.render import render

_MOST_REQUEUES = 100
"""A run that is stopped before its first save would queue itself again for ever."""


def slurm_file(command: Sequence[str], train: Sequence[str], asked: dict[str, Any]) -> str:
    """Return the text of a batch script; `asked` are the values of :class:`SlurmJob`, with `tasks` per node."""
    values = {
        **asked,
        "time": asked["time"] and _slurm_time(parse_duration(asked["time"])),
        "grace_seconds": round(parse_duration(asked["grace"])),
        "programs": str(Path(sys.prefix) / "bin"),
        "most_requeues": _MOST_REQUEUES,
        "words": ["srun", "accel_train", "train", *train],
    }
    return render("slurm.sh", command, values)


def _slurm_time(seconds: float) -> str:
    """Return a time as days-hours:minutes:seconds."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02}:{minute:02}:{second:02}" if days else f"{hour:02}:{minute:02}:{second:02}"
