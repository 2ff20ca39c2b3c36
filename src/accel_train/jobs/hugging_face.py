"""A script that starts a job on Hugging Face's hardware."""

import re
import shlex
from collections.abc import Sequence
from typing import Any

from accel_train.config.durations import parse_duration
from accel_train.config.job_panel import SECONDS_TO_STOP
from accel_train.jobs.render import render
from accel_train.jobs.train_options import as_words, device_of

_WORK = "/work"
_ATTEMPTS = 3
_KINDS = ("cpu", "t4", "l4", "l40s", "a10g", "a100", "h100", "h200", "b200", "rtx-pro-6000")
"""Of hardware, by which the names of flavors start."""


def is_known(flavor: str) -> bool:
    """Return whether the kind of hardware of a flavor is known."""
    return re.fullmatch(rf"({'|'.join(_KINDS)})(-[a-z]+)?(x\d+)?", flavor) is not None


def gpus_of(flavor: str) -> int:
    """Return the GPUs of a hardware flavor: `a10g-largex4` has four."""
    if flavor.startswith("cpu"):
        return 0
    gpus = re.search(r"x(\d+)$", flavor)
    return int(gpus[1]) if gpus else 1


def processes_of(flavor: str) -> int:
    """Return the processes for a hardware flavor: one per GPU, or one."""
    return max(1, gpus_of(flavor))


def hugging_face_file(command: Sequence[str], train: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return the script; `asked` are the values of :class:`HuggingFaceJob`, `train` the given options of train."""
    seconds = round(parse_duration(asked["time"]))
    flavor, output = asked["flavor"], f"runs/{asked['job_name']}"
    ours = {"processes": processes_of(flavor), "device": device_of(gpus_of(flavor)), "output": output}
    options = {**ours, "time_limit": f"{seconds - SECONDS_TO_STOP}s", **train}
    inner = shlex.join(["accel_train", "train", *as_words(options)])
    words = [
        *("hf", "jobs", "run", "--detach", "--name", asked["job_name"], "--flavor", asked["flavor"]),
        *("--timeout", f"{seconds}s", "--attempts", str(_ATTEMPTS)),
        *(("--secrets", "HF_TOKEN") if str(train.get("data", "")).startswith("hf:") else ()),
        *("--volume", f"hf://buckets/{asked['bucket']}:{_WORK}"),
        *("--", asked["image"], "sh", "-c", f"cd {_WORK} && exec {inner}"),
    ]
    return render("hugging_face.sh", command, {**asked, "words": words, "attempts": _ATTEMPTS})
