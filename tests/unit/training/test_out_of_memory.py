"""Out-of-memory errors are recognized, and their hint keeps the global batch."""

from collections.abc import Callable

import numpy as np
import psutil
import pytest
import torch

from accel_train.errors import LocalError, UserError
from accel_train.training.out_of_memory import as_memory_error, candidate_batch_sizes

ALLOCATOR = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate {} bytes. Error code 12"


def allocate_too_much() -> None:
    torch.empty(2**60, dtype=torch.uint8)


def numpy_allocates_too_much() -> None:
    np.empty(2**60, dtype=np.uint8)


def python_allocates_too_much() -> None:
    bytearray(2**62)


@pytest.mark.parametrize(
    ("fail", "needed"),
    [
        (allocate_too_much, "1,073,741,824.0 GiB needed"),
        (numpy_allocates_too_much, "1,073,741,824.0 GiB needed"),
        (python_allocates_too_much, "more needed"),
    ],
)
def test_real_errors_are_recognized(fail: Callable[[], None], needed: str) -> None:
    with pytest.raises((RuntimeError, MemoryError)) as caught:
        fail()
    error = as_memory_error(caught.value, rank=3, batch_size=64, global_batch=128, processes=1)
    assert isinstance(error, LocalError)
    free = psutil.virtual_memory().available / 2**30
    assert error.message.startswith(f"rank 3 is out of memory with --batch-size 64: {needed}, ")
    if free > 1:
        shown = float(error.message.rpartition("needed, ")[2].removesuffix(" GiB free").replace(",", ""))
        assert shown == pytest.approx(free, rel=0.2)


@pytest.mark.parametrize(
    ("error", "needed"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total"),
            "20.0 MiB needed",
        ),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total"), "1.5 GiB needed"),
        (RuntimeError("CUDA error: out of memory"), "more needed"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "more needed"),
        (RuntimeError("std::bad_alloc"), "more needed"),
        (RuntimeError("could not create a primitive"), "more needed"),
        (RuntimeError(ALLOCATOR.format(512 * 2**20)), "512.0 MiB needed"),
    ],
)
def test_messages_of_other_allocators_are_recognized(error: Exception, needed: str) -> None:
    found = as_memory_error(error, rank=0, batch_size=2, global_batch=2, processes=1)
    assert found
    assert f": {needed}, " in found.message


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shape mismatch"),
        RuntimeError("could not create a primitive descriptor for a convolution"),
        ValueError("out of memory"),
        UserError("a", "b"),
        KeyboardInterrupt(),
    ],
)
def test_other_errors_are_not_recognized(error: BaseException) -> None:
    assert as_memory_error(error, rank=0, batch_size=2, global_batch=2, processes=1) is None


@pytest.mark.parametrize(
    ("batch_size", "global_batch", "processes", "settings"),
    [
        (64, 128, 1, "--global-batch-size 128 --batch-size 32 (= --batch-size 32 --accumulate 4)"),
        (64, 128, 2, "--global-batch-size 128 --batch-size 32 (= --batch-size 32 --accumulate 2)"),
        (7, 28, 1, "--global-batch-size 28 --batch-size 2 (= --batch-size 2 --accumulate 14)"),
        (64, 4032, 1, "--global-batch-size 4032 --batch-size 32 (= --batch-size 32 --accumulate 126)"),
        (3, 9, 3, "--global-batch-size 9 --batch-size 1 (= --batch-size 1 --accumulate 3)"),
    ],
)
def test_hint_keeps_global_batch(batch_size: int, global_batch: int, processes: int, settings: str) -> None:
    error = as_memory_error(
        MemoryError(), rank=0, batch_size=batch_size, global_batch=global_batch, processes=processes
    )
    assert error
    assert error.hint.startswith(f"{settings} keeps the global batch")


def test_hint_for_single_image_is_a_smaller_model() -> None:
    error = as_memory_error(MemoryError(), rank=0, batch_size=1, global_batch=8, processes=2)
    assert error
    assert "smaller --model or --image-size" in error.hint
    assert "--strategy fsdp2" in error.hint


def test_candidates_divide_the_share_of_a_process() -> None:
    assert candidate_batch_sizes(48, 4) == (1, 2, 3, 4, 6, 12)
    assert candidate_batch_sizes(7, 1) == (1, 7)
    assert candidate_batch_sizes(8, 8) == (1,)
