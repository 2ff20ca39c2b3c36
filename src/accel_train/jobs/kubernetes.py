"""A PyTorchJob for Kubeflow's training operator: a torchrun in each pod."""

from collections.abc import Sequence
from typing import Any

from accel_train.config.durations import parse_duration
from accel_train.jobs.render import render
from accel_train.jobs.train_options import as_words, device_of

_RESTARTS_PER_POD = 6
"""As of Kubernetes' own jobs: one that fails again and again must not hold its GPUs for ever."""
_GRACE_SECONDS = 60
"""Torchrun gives its processes 30 s to save."""


def kubernetes_file(command: Sequence[str], train: dict[str, Any], asked: dict[str, Any]) -> str:
    """Return the manifest; `asked` are the values of :class:`KubernetesJob`, `train` the given options of train."""
    ours = {"output": f"runs/{asked['job_name']}", "device": device_of(asked["gpus_per_node"])}
    words = [
        *("torchrun", f"--nnodes={asked['nodes']}", f"--nproc_per_node={max(1, asked['gpus_per_node'])}"),
        *("--node_rank=$(RANK)", "--master_addr=$(MASTER_ADDR)", "--master_port=$(MASTER_PORT)"),  # set by the operator
        *("-m", "accel_train", "train"),
        *(word.replace("$(", "$$(") for word in as_words({**ours, **train}, joined=True)),
    ]
    gpus = {"nvidia.com/gpu": str(asked["gpus_per_node"] or "")}
    limits = {**gpus, "cpu": str(asked["cpus"] or ""), "memory": _binary(asked["memory"])}
    values = {
        **asked,
        "shm": _binary(asked["shm"]),
        "seconds": asked["time"] and round(parse_duration(asked["time"])),
        "grace_seconds": _GRACE_SECONDS,
        "restarts": _RESTARTS_PER_POD * asked["nodes"],
        "limits": {name: value for name, value in limits.items() if value},
        "words": words,
    }
    return render("kubernetes.yaml", command, values)


def _binary(size: str | None) -> str | None:
    """Return a size as Kubernetes has it: there G is 10⁹ bytes, and Gi is 2³⁰."""
    return size and f"{size}i"
