"""Options as flags; the logged numbers and the weights of runs, and their differences."""

import re
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor

from accel_train.config.plan import divide


def flags(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def relative(a: Tensor, b: Tensor) -> float:
    """Return the norm of the difference, divided by that of the first."""
    a, b = a.double(), b.double()
    return ((a - b).norm() / a.norm().clamp(min=1e-300)).item()


def greatest_difference(a: Path, b: Path) -> float:
    """Return the largest relative difference between the last weights of two runs, over all tensors."""
    tensors, others = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (a, b))
    assert tensors.keys() == others.keys()
    return max(relative(tensors[name], others[name]) for name in tensors)


def logged(folder: Path, rank: int, name: str) -> list[str]:
    return re.findall(rf" {name} (\S+)", (folder / "log" / f"rank_{rank}.log").read_text())


def losses(folder: Path, processes: int, micro_batches: int | None = None) -> list[float]:
    """Return the loss of each update over all processes, which share its micro-batches as a plan divides them."""
    by_rank = [[float(x) for x in logged(folder, rank, "local_loss")] for rank in range(processes)]
    return mean_losses(by_rank, micro_batches)


def mean_losses(by_rank: list[list[float]], micro_batches: int | None = None) -> list[float]:
    """Return the mean of the losses of each update; ranks that carry more micro-batches weigh more."""
    weights = [len(block) for block in divide(micro_batches or len(by_rank), len(by_rank))]
    shares = [
        sum(w * loss for w, loss in zip(weights, of_update, strict=True)) for of_update in zip(*by_rank, strict=True)
    ]
    return [share / sum(weights) for share in shares]


def ids(folder: Path, processes: int, stages: int = 1) -> list[int]:
    """Return a hash of the images of each update, which the stages of a replica share."""
    by_rank = [[int(x, 16) for x in logged(folder, rank, "local_ids_hash")] for rank in range(0, processes, stages)]
    return [sum(shares) % 2**64 for shares in zip(*by_rank, strict=True)]
