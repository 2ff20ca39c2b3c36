"""Measures how fast this process computes, and how long it waits for a CPU."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch

_SIZES = {"cpu": 256, "cuda": 4096, "mps": 2048}
"""Rows of the matrices that are multiplied, by kind of device."""
_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of a process."""

    gflops: float
    """Of its fastest round; on CPUs by CPU time, so that other programs do not matter."""
    waited: float
    """Share of the time in which it had no CPU; 0 on other devices."""

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Return the speed of another process from its JSON."""
        return cls(**record)


def measure_speed(device: torch.device) -> Speed:
    """Multiply matrices on a device."""
    size = _SIZES[device.type]
    matrix = torch.ones(size, size, device=device)
    on_cpu = device.type == "cpu"
    clock = time.thread_time if on_cpu else time.perf_counter
    float(torch.matmul(matrix, matrix)[0, 0])  # loads kernels
    fastest, used, began, wall = math.inf, 0.0, time.perf_counter(), 0.0
    while wall < _SECONDS:
        start = clock()
        float(torch.matmul(matrix, matrix)[0, 0])  # waits for the device
        seconds = clock() - start
        fastest, used = min(fastest, seconds), used + seconds
        wall = time.perf_counter() - began
    waited = max(0.0, 1 - used / wall) if on_cpu else 0.0
    return Speed(2 * size**3 / max(fastest, 1e-9) / 1e9, waited)
