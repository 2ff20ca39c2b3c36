"""Options as flags; the logged numbers and the weights of runs, and their differences."""

import re
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor


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


def losses(folder: Path, processes: int) -> list[float]:
    """Return the loss of each update: the mean over processes, which have equally many images."""
    by_rank = [[float(x) for x in logged(folder, rank, "local_loss")] for rank in range(processes)]
    return [sum(shares) / processes for shares in zip(*by_rank, strict=True)]


def ids(folder: Path, processes: int) -> list[int]:
    """Return a hash of the images of each update."""
    by_rank = [[int(x, 16) for x in logged(folder, rank, "local_ids_hash")] for rank in range(processes)]
    return [sum(shares) % 2**64 for shares in zip(*by_rank, strict=True)]
