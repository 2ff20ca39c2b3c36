"""Random numbers that are pure functions of a key: the same on every process, on every device and after a restart.

The hash is SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
Tensors are int64, because torch has no unsigned shifts, and hold the bits of the unsigned hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Ids = TypeVar("Ids", Tensor, NDArray[Any])

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


def make_key(*parts: int | str) -> int:
    """Combine the parts of a key, in order, into 64 unsigned bits."""
    state = 0
    for part in parts:
        value = int.from_bytes(part.encode()[:8], "little") if isinstance(part, str) else part
        state = _mix((state + _GAMMA ^ value) & _MASK)
    return state


def signed(bits: int) -> int:
    """Reinterpret 64 unsigned bits as an int64."""
    return (bits & _MASK) - ((bits & 1 << 63) << 1)


def hash_ids(key: int | Tensor, ids_B: Ids) -> Ids:
    """Hash each int64 id with a key of :func:`make_key`; return int64 of the same type, shape and device.

    The key may also be a tensor of signed keys whose shape broadcasts with that of the ids.
    """
    x = ids_B * signed(_GAMMA) + (signed(key) if isinstance(key, int) else key)
    x = (x ^ _shift_right(x, 30)) * signed(_MIX[0])
    x = (x ^ _shift_right(x, 27)) * signed(_MIX[1])
    hashed: Ids = x ^ _shift_right(x, 31)
    return hashed


def integers(key: int | Tensor, ids_B: Tensor, limit: int | Tensor) -> Tensor:
    """Draw an int64 in [0, limit) for each id; `limit` is far below 2**31, which makes the bias negligible.

    Key and limit may also be tensors that broadcast with the ids.
    """
    return _shift_right(hash_ids(key, ids_B), 32) * limit >> 32


def fractions(key: int | Tensor, ids_B: Tensor) -> Tensor:
    """Draw a float32 in [0, 1) for each id; the key may also be a tensor that broadcasts with the ids."""
    return _shift_right(hash_ids(key, ids_B), 40).float() * 2.0**-24


def seed_libraries(key: int) -> None:
    """Seed `random`, numpy and torch, which users' models and transforms draw from."""
    import random

    import numpy as np
    import torch

    random.seed(key)
    np.random.seed(key & 0xFFFFFFFF)
    torch.default_generator.manual_seed(key)  # torch.manual_seed takes 0.2 ms if CUDA was never used
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed(key)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(key)


def _mix(x: int) -> int:
    x = (x ^ x >> 30) * _MIX[0] & _MASK
    x = (x ^ x >> 27) * _MIX[1] & _MASK
    return x ^ x >> 31


def _shift_right(x: Ids, bits: int) -> Ids:
    return (x >> bits) & ((1 << 64 - bits) - 1)
