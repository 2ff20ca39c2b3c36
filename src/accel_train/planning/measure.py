"""Measures the speed of one device of this machine: trains for some seconds, in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from accel_train.config.options import TrainConfig
from accel_train.distributed.resolve import choose_device
from accel_train.errors import UserError
from accel_train.planning.run_plan import RunPlan
from accel_train.planning.speed import Speed

_SECONDS = 10.0
_MIN_EPOCHS = 2
"""After the first one, which is slower."""
_UPDATES = 8
"""In each epoch: a few, so that a slow machine is measured in a few of them."""
_CHANGED: dict[str, Any] = {
    **{"epochs": 10_000, "lr": 1e-4, "resume": "never", "on_nan": "stop", "rank_lines": "none"},
    **{"accumulate": None, "global_batch_size": None, "processes": 1, "strategy": "auto", "shard_size": None},
    **{"pipeline_stages": None, "pipeline_schedule": None, "pipeline_split": None, "auto_micro_batch": False},
    **{"lr_scaling": None, "lr_base_batch": None, "max_lr": None, "milestones": None, "gamma": None},
    **{"schedule": "constant", "warmup_epochs": 0.0, "warmup_from": None, "target_accuracy": None, "patience": None},
    **{"time_limit": None, "unfreeze_at": None, "save_every": "1000000epoch", "tracker": None, "profile": False},
}
"""What would end the short run, or is for several processes."""


def check_device(asked: str) -> None:
    """Check that this machine has a device of the kind that is planned; `asked` is ``--device``.

    Raises:
        UserError: it has a CPU only.
    """
    if asked != "cpu" and choose_device(asked, os.environ) == "cpu":
        raise UserError(
            "--measure: the plan is of GPUs, and this machine has none",
            "give --images-per-second, or add --device cpu to plan CPU processes",
        )


def measure(planned: RunPlan) -> Speed:
    """Train with one process for about ten seconds, and return the speed.

    Raises:
        UserError: the run could not start.
    """
    with tempfile.TemporaryDirectory(prefix="accel_train_plan_") as folder:
        values = planned.given.model_dump(mode="json") | _CHANGED | {"output": str(Path(folder, "run"))}
        values |= {"batch_size": planned.plan.batch_size, "limit": _UPDATES * planned.plan.batch_size}
        usual = TrainConfig().model_dump(mode="json")
        changed = {name: value for name, value in values.items() if value is not None and value != usual[name]}
        config = Path(folder, "measured.yaml")
        config.write_text(yaml.safe_dump(changed), encoding="utf-8")
        words = [sys.executable, "-m", "accel_train", "train", "--config", str(config), "--no-report", "--json"]
        began = time.perf_counter()
        with tempfile.TemporaryFile("w+") as errors:
            with subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment()
            ) as process:
                try:
                    start, epochs = _epochs(process, began)
                finally:
                    process.kill()  # there is nothing to keep
            if len(epochs) <= 1:
                errors.seek(0)
                raise _failure(errors.read())
    return _speed(epochs[1:], start, _UPDATES * planned.plan.batch_size, len(planned.subject.data.val))


def _epochs(process: subprocess.Popen[str], began: float) -> tuple[float, list[dict[str, Any]]]:
    """Return the seconds until training began, and the epochs until enough are measured."""
    assert process.stdout
    start, epochs = 0.0, []
    for record in map(json.loads, process.stdout):
        if record["kind"] == "run":
            start = time.perf_counter() - began
        elif record["kind"] == "epoch":
            epochs.append(record)
            if len(epochs) > _MIN_EPOCHS and sum(each["seconds"] for each in epochs[1:]) >= _SECONDS:
                break
    return start, epochs


def _speed(epochs: list[dict[str, Any]], start: float, images: int, val_images: int) -> Speed:
    training = sum(images / each["images_per_second"] for each in epochs)
    validation = sum(each["seconds"] for each in epochs) - training
    validated = min(images, val_images) * len(epochs)
    return Speed(images * len(epochs) / training, validated / max(validation, 1e-9), start)


def _environment() -> dict[str, str]:
    """Return the environment of a run that ends when this process does."""
    return os.environ | {"ACCEL_TRAIN_LAUNCHER_PID": str(os.getpid()), "PYTHONSAFEPATH": "1"}


def _failure(output: str) -> UserError:
    """Return the error that the run has reported."""
    reported = {label: text for label, _, text in (line.partition(": ") for line in output.splitlines())}
    return UserError(
        f"--measure: {reported.get('error', 'the run ended')}",
        reported.get("hint", "give --images-per-second, or see what accel_train train prints"),
    )
