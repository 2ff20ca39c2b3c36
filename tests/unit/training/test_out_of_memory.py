"""Running out of memory ends in a way to go on, and the largest batch that fits is found under a real limit."""

import random
import sys
from collections.abc import Callable

import numpy as np
import psutil
import pytest
import torch
from helpers.runner import Runner
from torch import Tensor, nn

from accel_train.errors import LocalError, UserError
from accel_train.models.build import build_model
from accel_train.training.out_of_memory import as_memory_error, candidates, largest_fitting, try_update

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
def test_real_errors_are_recognised(fail: Callable[[], None], needed: str) -> None:
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
def test_words_of_other_allocators_are_recognised(error: Exception, needed: str) -> None:
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
def test_other_errors_are_not(error: BaseException) -> None:
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
def test_the_hint_keeps_the_global_batch(batch_size: int, global_batch: int, processes: int, settings: str) -> None:
    error = as_memory_error(
        MemoryError(), rank=0, batch_size=batch_size, global_batch=global_batch, processes=processes
    )
    assert error
    assert error.hint.startswith(f"{settings} keeps the global batch")


def test_one_image_that_does_not_fit_needs_another_model() -> None:
    error = as_memory_error(MemoryError(), rank=0, batch_size=1, global_batch=8, processes=2)
    assert error
    assert "smaller --model or --image-size" in error.hint
    assert "--strategy fsdp2" in error.hint


def test_candidates_divide_the_share_of_a_process() -> None:
    assert candidates(48, 4) == (1, 2, 3, 4, 6, 12)
    assert candidates(7, 1) == (1, 7)
    assert candidates(8, 8) == (1,)


class Limited:
    """Fails for more images than fit, and notes what was tried."""

    def __init__(self, limit: int, error: Exception) -> None:
        self.limit = limit
        self.error = error
        self.tried: list[int] = []

    def __call__(self, size: int) -> None:
        self.tried.append(size)
        if size > self.limit:
            raise self.error


def test_the_search_ends_at_the_first_that_is_too_large_and_all_processes_agree() -> None:
    limited, asked = Limited(5, MemoryError()), list[int]()

    def agree(mine: int) -> int:
        asked.append(mine)
        return 2

    assert largest_fitting(limited, (1, 2, 4, 8, 16), agree) == 2
    assert limited.tried == [1, 2, 4, 8]
    assert asked == [4]


def test_the_largest_of_all_may_fit() -> None:
    assert largest_fitting(Limited(99, MemoryError()), (1, 3, 9), lambda mine: mine) == 9


@pytest.mark.parametrize(("mine", "agreed"), [(0, 0), (8, 0)])
def test_not_one_image_fits_somewhere(mine: int, agreed: int) -> None:
    asked = list[int]()
    with pytest.raises(UserError, match="no batch size fits into the memory of every process, not even 1"):
        largest_fitting(Limited(mine, MemoryError()), (1, 2, 4, 8), lambda own: asked.append(own) or agreed)
    assert asked == [mine]


def test_other_errors_end_the_search() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        largest_fitting(Limited(2, RuntimeError("shape")), (1, 2, 4), lambda mine: mine)


def test_a_batch_too_small_for_batch_norm_is_passed_over() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    fitting = largest_fitting(
        lambda size: try_update(net, torch.ones(size, 3), 4, copies=0), (1, 2, 4), lambda mine: mine
    )
    assert fitting == 4


class Drawing(nn.Module):
    """Draws from every generator, has buffers, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.fails = False
        self.modes: list[bool] = []

    def forward(self, images: Tensor) -> Tensor:
        self.modes.append(self.training)
        made: Tensor = self.layers(images) * random.random() * np.random.rand()
        if self.fails:
            raise MemoryError
        return made


@pytest.mark.parametrize("fails", [False, True])
def test_trying_an_update_leaves_no_trace(fails: bool) -> None:
    net = Drawing()
    net.fails = fails
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    generators = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    images = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    try:
        try_update(net, images, 4, copies=2)
    except MemoryError:
        assert fails
    assert net.modes == [True]
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert np.random.get_state()[1].tolist() == generators[2]


def test_auxiliary_heads_are_tried_too() -> None:
    net = build_model("googlenet", classes=5, channels=3, data_size=32, image_size=None).module
    try_update(net, torch.rand(2, 3, 32, 32), 5, copies=1)


SEARCH = """
import resource, sys
import psutil, torch
from accel_train.training.out_of_memory import candidates, largest_fitting, try_update
from accel_train.models.networks import cnn
net = cnn(10, 1, 28)
def search(copies, room_MiB):
    def try_batch(size):
        try_update(net, torch.rand(size, 1, 28, 28), 10, copies=copies)
    try_batch(1)
    limit = psutil.Process().memory_info().vms + room_MiB * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
    found = largest_fitting(try_batch, candidates(2**12, 1), lambda mine: mine)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    print(found)
search(*map(int, sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not keep to RLIMIT_AS")
def test_the_search_finds_what_fits_under_a_real_limit(run: Runner) -> None:
    found = []
    for copies, room_MiB in ((1, 100), (1, 700), (350, 700)):  # 1.6 MiB for each copy of the weights
        ended = run.program([sys.executable, "-c", SEARCH, str(copies), str(room_MiB)])  # anew: freed memory is reused
        assert ended.code == 0, ended.err
        found.append(int(ended.out))
    narrow, wide, with_much_optimizer_state = found
    assert 1 <= narrow < wide < 2**12
    assert with_much_optimizer_state < wide
