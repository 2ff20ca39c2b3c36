"""Recognizes out-of-memory errors and reports what to change."""

import re

import psutil
import torch

from accel_train.errors import LocalError
from accel_train.system.os_errors import address_space_limit, format_bytes

_UNITS = {"bytes": 1} | {f"{letter}iB": 2 ** (10 * power) for power, letter in enumerate("KMGTPE", start=1)}
_OUT_OF_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|ALLOC_FAILED|could not create a (primitive|memory object)$"
)
"""Messages of torch's CPU allocator, of CUDA and MPS outside torch's allocators, of C++, cuBLAS and oneDNN.

oneDNN gives no reason; in a model that has run before, it lacks room for a kernel or scratchpad.
"""
_NEEDED = re.compile(rf"allocate (\d[\d.]*) ({'|'.join(_UNITS)})")
SMALLER_MODEL = "take a smaller --model or --image-size, or shard the weights over processes with --strategy fsdp2"
"""Hint if no batch size fits."""


def as_memory_error(
    error: BaseException, *, rank: int, batch_size: int, global_batch: int, processes: int
) -> LocalError | None:
    """Return an error with a hint if memory has run out, else None."""
    if not is_out_of_memory(error):
        return None
    text = str(error)
    on_gpu = torch.cuda.is_initialized() and (isinstance(error, torch.OutOfMemoryError) or "CU" in text)  # type: ignore[no-untyped-call]
    free = torch.cuda.mem_get_info()[0] if on_gpu else psutil.virtual_memory().available
    found = _NEEDED.search(text)
    needed = f"{format_bytes(float(found[1]) * _UNITS[found[2]])} needed" if found else "more needed"
    place = "GPU memory" if on_gpu else "memory"
    limit = None if on_gpu else address_space_limit()
    limited = f", but {limit}" if limit else ""
    return LocalError(
        f"rank {rank} is out of {place} with --batch-size {batch_size}: {needed}, {format_bytes(free)} free{limited}",
        _remedy(batch_size, global_batch, processes),
    )


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def candidate_batch_sizes(global_batch: int, processes: int) -> tuple[int, ...]:
    """Return the batch sizes, ascending, that give every process a micro-batch, and all equally many if possible."""
    share, rest = divmod(global_batch, processes)
    return tuple(size for size in range(1, share + 1) if (global_batch if rest else share) % size == 0)


def _remedy(batch_size: int, global_batch: int, processes: int) -> str:
    smaller = [size for size in candidate_batch_sizes(global_batch, processes) if size <= batch_size / 2]
    if not smaller:
        return SMALLER_MODEL
    size = smaller[-1]
    accumulate, rest = divmod(global_batch, size * processes)
    same = f" (= --batch-size {size} --accumulate {accumulate})" * (rest == 0)
    return (
        f"--global-batch-size {global_batch} --batch-size {size}{same} "
        "keeps the global batch; only BatchNorm and dropout give other results"
    )
