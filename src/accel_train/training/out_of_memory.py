"""Says what to do when memory runs out, or finds the largest batch with which it does not.

Shape suffixes: B images, C channels, H height, W width.
"""

import gc
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import psutil
import torch
from torch import Tensor, nn

from accel_train.errors import LocalError, UserError
from accel_train.training.metrics import training_loss

_UNITS = {"bytes": 1} | {f"{letter}iB": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|ALLOC_FAILED|could not create a (primitive|memory object)$"
)
"""In the messages of torch's CPU allocator, of CUDA and MPS outside of torch's allocators, of C++, cuBLAS and oneDNN.

oneDNN gives no reason; of a model that has computed before, it is that there is no room for its kernel or scratchpad.
"""
_NEEDED = re.compile(rf"allocate (\d[\d.]*) ({'|'.join(_UNITS)})")
_TOO_FEW = "Expected more than 1 value per channel"
"""BatchNorm's words for a batch of one image that has shrunk to one pixel."""


def as_memory_error(
    error: BaseException, *, rank: int, batch_size: int, global_batch: int, processes: int
) -> LocalError | None:
    """Return what a user can do about an error, or None unless it says that memory has run out."""
    if not _is_out_of_memory(error):
        return None
    text = str(error)
    on_gpu = torch.cuda.is_initialized() and (isinstance(error, torch.OutOfMemoryError) or "CU" in text)  # type: ignore[no-untyped-call]
    free = torch.cuda.mem_get_info()[0] if on_gpu else psutil.virtual_memory().available
    found = _NEEDED.search(text)
    needed = f"{_size(float(found[1]) * _UNITS[found[2]])} needed" if found else "more needed"
    place = "GPU memory" if on_gpu else "memory"
    return LocalError(
        f"rank {rank} is out of {place} with --batch-size {batch_size}: {needed}, {_size(free)} free",
        _remedy(batch_size, global_batch, processes),
    )


def candidates(global_batch: int, processes: int) -> tuple[int, ...]:
    """Return the batch sizes, ascending, of which a whole number on each process makes the global batch."""
    share = global_batch // processes
    return tuple(size for size in range(1, share + 1) if share % size == 0)


def largest_fitting(try_batch: Callable[[int], None], sizes: Sequence[int], agree: Callable[[int], int]) -> int:
    """Collective: return the largest of the ascending batch sizes with which no process runs out of memory.

    `agree` returns the least of the numbers that it gets on all processes.

    Raises:
        UserError: there is none.
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
            "take a smaller --model or --image-size, or share the weights out among processes by --strategy fsdp2",
        )
    return agreed


def try_update(module: nn.Module, images_BCHW: Tensor, classes: int, *, copies: int) -> None:
    """Hold at one time what an update of these images does, without changing the module or any generator.

    `copies` is how many further numbers are kept for each weight, as by the optimizer.
    """
    buffers = [(buffer, buffer.clone()) for buffer in module.buffers()]
    labels_B = torch.arange(len(images_BCHW), device=images_BCHW.device) % classes
    module.train()
    with _same_generators(images_BCHW.device):
        try:
            kept = [torch.empty_like(p) for p in module.parameters() for _ in range(copies)]
            loss, _ = training_loss(module(images_BCHW), labels_B, label_smoothing=0.0)
            loss.backward()  # type: ignore[no-untyped-call]
            del kept
        finally:
            module.zero_grad(set_to_none=True)
            for buffer, before in buffers:
                buffer.copy_(before)


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def _remedy(batch_size: int, global_batch: int, processes: int) -> str:
    smaller = [size for size in candidates(global_batch, processes) if size <= batch_size / 2]
    if not smaller:
        return "take a smaller --model or --image-size, or share the weights out among processes by --strategy fsdp2"
    size = smaller[-1]
    accumulate = global_batch // (size * processes)
    return (
        f"--global-batch-size {global_batch} --batch-size {size} (= --batch-size {size} --accumulate {accumulate}) "
        "keeps the global batch; only BatchNorm and dropout then give other results"
    )


def _size(count: float) -> str:
    """Write bytes as people do."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def _outcome(try_batch: Callable[[int], None], size: int) -> str:
    try:
        try_batch(size)
    except (RuntimeError, MemoryError) as error:
        if not _is_out_of_memory(error):
            raise
        outcome = "too large"
    except ValueError as error:
        if _TOO_FEW not in str(error):
            raise
        outcome = "too small"
    else:
        outcome = "fits"
    # Here the error is gone, and with it the frames that held the tensors.
    gc.collect()
    torch.cuda.empty_cache()
    return outcome


@contextmanager
def _same_generators(device: torch.device) -> Iterator[None]:
    """Leave the generators of `random`, numpy and torch as they were."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
