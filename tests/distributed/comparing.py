"""Starts runs from a dict of options, and compares what they leave."""

from pathlib import Path
from typing import Any

import safetensors.torch
from torch import Tensor


def flags(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def relative(a: Tensor, b: Tensor) -> float:
    """Return the norm of the difference, relative to that of the first."""
    a, b = a.double(), b.double()
    return ((a - b).norm() / a.norm().clamp(min=1e-300)).item()


def greatest_difference(a: Path, b: Path) -> float:
    """Return the largest relative difference between the tensors of two runs' last weights."""
    tensors, others = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (a, b))
    assert tensors.keys() == others.keys()
    return max(relative(tensors[name], others[name]) for name in tensors)
