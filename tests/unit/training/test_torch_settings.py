"""A process keeps the memory that tensors give back, computes on its share of the cores, and compiles if it can."""

import os
import platform
import sys

import pytest
import safetensors.torch
import torch
from helpers.runner import Runner
from torch import nn

from accel_train.distributed.environment import available_cores
from accel_train.errors import UserError
from accel_train.training.torch_settings import benchmark_convolutions, compile_model

FAULTS = """
import resource, sys, torch
from accel_train.training.torch_settings import tune
if sys.argv[1] == "tuned":
    tune(None, exact=False)
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        torch.zeros(3, 2**20)  # 12 MiB, and freed
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""
THREADS = """
import sys, torch
from accel_train.training.torch_settings import tune
threads, exact = sys.argv[1:]
tune(int(threads) or None, exact == "exact")
print(torch.get_num_threads())
"""


def page_faults(run: Runner, *words: str, **environment: str) -> int:
    return int(run.program([sys.executable, "-c", FAULTS, *words], **environment).out)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others keep memory, or cannot be told to")
def test_freed_memory_is_kept(run: Runner) -> None:
    untouched = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}  # else what torch did counts
    assert page_faults(run, "as it is", **untouched) > 5000
    assert page_faults(run, "tuned", **untouched) < 500


@pytest.mark.parametrize(
    ("given", "exact", "environment", "expected"),
    [
        (3, "", {}, 3),
        (0, "exact", {}, 1),
        (2, "exact", {}, 2),
        (0, "", {"OMP_NUM_THREADS": "2"}, 2),
        (0, "", {"OMP_NUM_THREADS": ""}, available_cores()),
        (0, "", {"OMP_NUM_THREADS": "", "RANK": "0", "WORLD_SIZE": "64", "LOCAL_WORLD_SIZE": "64"}, 1),
    ],
)
def test_threads_are_those_asked_for_or_a_share_of_the_cores(
    run: Runner, given: int, exact: str, environment: dict[str, str], expected: int
) -> None:
    ended = run.program([sys.executable, "-c", THREADS, str(given), exact], **environment)
    assert ended.out == f"{expected}\n", ended.err


@pytest.mark.parametrize("processes", [1, 2])
def test_a_compiled_run_is_the_same_run_and_leaves_plain_weights(run: Runner, processes: int) -> None:
    words = (
        "--data",
        "synthetic:64,1,8,8,2",
        "--model",
        "mlp",
        "--batch-size",
        "8",
        "--epochs",
        "1",
        "--device",
        "cpu",
    )
    for name, more in (("plain", ()), ("compiled", ("--compile",))):
        ended = run("train", *words, "--output", name, *more, processes=processes, timeout=280)
        assert ended.code == 0, ended.err
    plain, compiled = (
        safetensors.torch.load_file(run.folder / name / "model.safetensors") for name in ("plain", "compiled")
    )
    assert plain.keys() == compiled.keys()
    for name, weight in plain.items():
        assert torch.allclose(weight, compiled[name], rtol=1e-4, atol=1e-6), name
    assert "compile: true" in (run.folder / "compiled" / "config.yaml").read_text()


def test_what_torch_compiles_with_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"C\+\+ compiler no-such-compiler"):
        compile_model(nn.Linear(2, 2), torch.device("cpu"))


def test_cudnn_is_benchmarked_if_asked_and_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    with pytest.raises(UserError, match="--cudnn-benchmark has no effect on cpu"):
        benchmark_convolutions(torch.device("cpu"))
    assert not torch.backends.cudnn.benchmark
    benchmark_convolutions(torch.device("cuda"))
    assert torch.backends.cudnn.benchmark


def test_what_needs_a_gpu_is_refused_on_a_cpu(run: Runner) -> None:
    ended = run("train", "--cudnn-benchmark", "--device", "cpu", CUDA_VISIBLE_DEVICES="")
    assert ended.code == 2
    assert ended.err.splitlines()[-2:] == [
        "error: --cudnn-benchmark has no effect on cpu",
        "hint: leave it out, or use --device cuda",
    ]
