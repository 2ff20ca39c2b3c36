"""Torch uses the threads that are asked for, or a share of the cores; options without effect are rejected."""

import os
from collections.abc import Iterator

import pytest
import torch
from torch import nn

from accel_train.distributed.environment import available_cores
from accel_train.errors import UserError
from accel_train.training import torch_settings
from accel_train.training.torch_settings import (
    benchmark_convolutions,
    compile_model,
    restored_torch_options,
    set_torch_options,
)

BEFORE = 5
"""Threads before the options are set."""


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore torch's global options afterwards."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.set_num_threads(BEFORE)
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)


@pytest.mark.usefixtures("options")
@pytest.mark.parametrize(
    ("given", "exact", "environment", "expected"),
    [
        (3, False, {}, 3),
        (None, True, {}, 1),
        (2, True, {}, 2),
        (None, True, {"OMP_NUM_THREADS": "2"}, 1),
        (3, False, {"OMP_NUM_THREADS": "2"}, 3),
        (None, False, {"OMP_NUM_THREADS": "2"}, 2),
        (None, False, {"OMP_NUM_THREADS": "4,3,2"}, 4),
        (None, False, {"MKL_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
        (None, True, {"MKL_NUM_THREADS": "3"}, 1),
        (None, False, {"OMP_NUM_THREADS": ""}, available_cores()),
        (None, False, {"OMP_NUM_THREADS": "", "RANK": "0", "WORLD_SIZE": "64", "LOCAL_WORLD_SIZE": "64"}, 1),
    ],
)
def test_threads_are_those_asked_for_or_a_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch, given: int | None, exact: bool, environment: dict[str, str], expected: int
) -> None:
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    set_torch_options(given, exact)
    assert torch.get_num_threads() == expected
    assert torch.are_deterministic_algorithms_enabled() == exact
    assert not torch.utils.deterministic.fill_uninitialized_memory


@pytest.mark.usefixtures("options")
def test_fewer_threads_by_openmps_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_THREAD_LIMIT", "3")
    set_torch_options(3, exact=False)
    with pytest.raises(UserError) as refused:
        set_torch_options(4, exact=False)
    assert refused.value.message == "OMP_THREAD_LIMIT=3 is less than the 4 threads of a process"
    assert refused.value.hint == "add --threads 3, or unset it"


@pytest.mark.usefixtures("options")
def test_number_that_torch_has_read_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(threads: int) -> None:
        raise AssertionError

    monkeypatch.setenv("OMP_NUM_THREADS", str(BEFORE))
    monkeypatch.setattr(torch, "set_num_threads", refuse)  # it would also change how MKL uses them
    set_torch_options(None, exact=False)
    monkeypatch.undo()


@pytest.mark.usefixtures("options")
def test_run_leaves_the_options_of_its_process_as_they_were() -> None:
    with restored_torch_options():
        set_torch_options(2, exact=True)
        assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == BEFORE
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory


@pytest.mark.parametrize("name", ["TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_SUPPRESS_ERRORS"])
def test_compiler_that_the_environment_switches_off_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    with pytest.raises(UserError, match=f"{name}=1 asks for ") as refused:
        compile_model(nn.Linear(1, 1), torch.device("cpu"))
    assert refused.value.hint == "unset it, or leave out --compile"


@pytest.mark.usefixtures("options")
def test_a_later_run_is_not_deterministic_because_an_earlier_one_was() -> None:
    set_torch_options(1, exact=True)
    set_torch_options(1, exact=False)
    assert not torch.are_deterministic_algorithms_enabled()


def test_missing_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"C\+\+ compiler no-such-compiler"):
        compile_model(nn.Linear(2, 2), torch.device("cpu"))


def test_missing_triton_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_settings, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="needs the package triton"):
        compile_model(nn.Linear(2, 2), torch.device("cuda"))


def test_cudnn_benchmark_is_rejected_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    with pytest.raises(UserError, match="--cudnn-benchmark has no effect on cpu"):
        benchmark_convolutions(torch.device("cpu"))
    assert not torch.backends.cudnn.benchmark
    benchmark_convolutions(torch.device("cuda"))
    assert torch.backends.cudnn.benchmark
