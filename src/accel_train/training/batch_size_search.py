"""Finds the largest batch size that fits into memory.

Shape suffixes: B images, C channels, H height, W width.
"""

import gc
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.training.loss import Loss, Targets
from accel_train.training.out_of_memory import SMALLER_MODEL, is_out_of_memory

_TOO_FEW = "Expected more than 1 value per channel"
"""BatchNorm's message for a batch of one image that has shrunk to one pixel."""


def largest_fitting(try_batch: Callable[[int], None], sizes: Sequence[int], agree: Callable[[int], int]) -> int:
    """Collective: return the largest of the ascending batch sizes with which no process runs out of memory.

    `agree` is a collective that returns the minimum over all processes.

    Raises:
        UserError: no batch size fits.
    """
    largest = 0
    for size in sizes:
        outcome = _outcome(try_batch, size)
        if outcome == "too large":
            break
        if outcome == "fits":
            largest = size
    agreed = agree(largest)
    if agreed == 0:
        raise UserError(
            f"--auto-micro-batch: no batch size fits into the memory of every process, not even {sizes[0]}",
            SMALLER_MODEL,
        )
    return agreed


def try_update(module: nn.Module, images_BCHW: Tensor, classes: int, *, copies: int) -> None:
    """Allocate as much memory as an update of these images, without changing the module or any generator.

    `copies` is the number of further values stored per weight, as by the optimizer.
    """
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    labels_B = torch.arange(len(images_BCHW), device=images_BCHW.device) % classes
    module.train()
    with _same_generators(images_BCHW.device):
        try:
            kept = [torch.empty_like(p) for p in module.parameters() for _ in range(copies)]
            loss, _ = Loss(classes=classes)(module(images_BCHW), Targets(labels_B))
            loss.backward()  # type: ignore[no-untyped-call]
            del kept
        finally:
            module.zero_grad(set_to_none=True)
            for buffer, before in buffers:
                buffer.copy_(before)


def _outcome(try_batch: Callable[[int], None], size: int) -> str:
    try:
        try_batch(size)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        outcome = "too large"
    except ValueError as error:
        if _TOO_FEW not in str(error):
            raise
        outcome = "too small"
    else:
        outcome = "fits"
    # Here the error is gone, and with it the frames that referenced the tensors.
    gc.collect()
    torch.cuda.empty_cache()
    return outcome


@contextmanager
def _same_generators(device: torch.device) -> Iterator[None]:
    """Restore the generators of `random`, numpy and torch afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
