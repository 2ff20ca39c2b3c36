"""Random numbers as pure functions of a key, the same on every process, device and restart.

The hash is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
Tensors are int64 because torch has no unsigned shifts; bits are those of the unsigned hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def make_key(*parts: int | str) -> int:
    """Fold the parts of a key, in order, into 64 unsigned bits."""
    state = 0
    for part in parts:
        value = int.from_bytes(part.encode()[:8], "little") if isinstance(part, str) else part
        state = _mix((state + _GAMMA ^ value) & _MASK)
    return state


def hash_ids(key: int, ids_B: Tensor) -> Tensor:
    """Hash each int64 id with a key of :func:`make_key`: int64 bits, same shape and device."""
    x = ids_B * _signed(_GAMMA) + _signed(key)
    x = (x ^ _shift_right(x, 30)) * _signed(_MIX[0])
    x = (x ^ _shift_right(x, 27)) * _signed(_MIX[1])
    return x ^ _shift_right(x, 31)


def integers(key: int, ids_B: Tensor, limit: int) -> Tensor:
    """Draw one int64 in [0, limit) for each id; `limit` is far below 2**31, so the bias is negligible."""
    return _shift_right(hash_ids(key, ids_B), 32) * limit >> 32


def seed_libraries(key: int) -> None:
    """Seed `random`, numpy and torch, from which users' models and transforms draw."""
    import random

    import numpy as np
    import torch

    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)
    torch.default_generator.manual_seed(key)  # torch.manual_seed takes 0.2 ms where CUDA was never used
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(key)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(key)


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * _MIX[0] & _MASK
    x = (x ^ x >> 27) * _MIX[1] & _MASK
    return x ^ x >> 31


def _signed(value: int) -> int:
    return (value & _MASK) - ((value & 1 << 63) << 1)


def _shift_right(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << 64 - bits) - 1)
