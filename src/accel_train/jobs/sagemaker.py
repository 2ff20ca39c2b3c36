"""A Python script for SageMaker: run by hand it starts the job, and on the instances it is the entry script."""

from collections.abc import Sequence
from typing import Any

from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.durations import parse_duration
from accel_train.config.job_panel import SECONDS_TO_STOP
from accel_train.jobs.render import render
from accel_train.jobs.train_options import as_text


def sagemaker_file(command: Sequence[str], train: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return the script; `asked` are the values of :class:`SageMakerJob`, `train` the given options of train."""
    seconds = round(parse_duration(asked["time"]))
    options = {"time_limit": f"{seconds - SECONDS_TO_STOP}s", **train}
    channel = options.pop("data") if _is_path(options.get("data", "digits")) else None
    kind, _, rest = (asked["file_system"] or "").partition("://")
    identifier, _, path = rest.partition("/")
    values = {
        **asked,
        "seconds": seconds,
        "channel": channel,
        "file_system": asked["file_system"] and {"kind": kind, "id": identifier, "path": f"/{path}"},
        "hyperparameters": {
            name: value if isinstance(value, bool) else as_text(value)
            for name, value in options.items()
            if value is not None
        },
    }
    return render("sagemaker_job.txt", command, values)


def _is_path(data: str) -> bool:
    """Return whether data are a folder, here or in S3, and no name such as digits, hf:NAME or my.module:function."""
    return data.startswith("s3://") or (":" not in data and data not in DATA_DEFAULTS)
