"""Settings of torch that only a fresh process shows: threads, freed memory, and a real limit of memory."""

import platform
import sys

import pytest
from helpers.runner import Runner

SETTINGS = """
import resource, torch
from accel_train.training.torch_settings import keep_freed_memory, set_torch_options
def page_faults():
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            torch.zeros(3, 2**20)  # 12 MiB, and freed
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
before = page_faults()
set_torch_options(None, exact=False)
keep_freed_memory()
print(torch.get_num_threads(), before, page_faults())
"""
SEARCH = """
import os, resource
import psutil, torch
from accel_train.models.networks import cnn
from accel_train.training.batch_size_search import largest_fitting, try_update
from accel_train.training.out_of_memory import candidate_batch_sizes
net = cnn(10, 1, 28)
def search(copies, room_MiB):
    def try_batch(size):
        try_update(net, torch.rand(size, 1, 28, 28), 10, copies=copies)
    try_batch(1)
    limit = psutil.Process().memory_info().vms + room_MiB * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
    print(largest_fitting(try_batch, candidate_batch_sizes(2**12, 1), lambda own: own), flush=True)
for case in ((1, 100), (1, 700), (350, 700)):  # a copy of the weights takes 1.6 MiB
    child = os.fork()  # freed memory is kept: each search needs a process of its own
    if not child:
        search(*case)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_freed_memory_is_reused_and_threads_follow_the_environment(run: Runner) -> None:
    glibc_defaults = {"MALLOC_TRIM_THRESHOLD_": "131072", "MALLOC_MMAP_THRESHOLD_": "131072"}  # else torch adapts them
    ended = run.program([sys.executable, "-c", SETTINGS], OMP_NUM_THREADS="2", **glibc_defaults)
    threads, before, after = map(int, ended.out.split())
    assert threads == 2
    if platform.libc_ver()[0] == "glibc":
        assert before > 5000
        assert after < 500


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not enforce RLIMIT_AS")
def test_batch_size_search_obeys_a_memory_limit(run: Runner) -> None:
    ended = run.program([sys.executable, "-c", SEARCH])
    assert ended.code == 0, ended.err
    narrow, wide, with_large_optimizer_state = map(int, ended.out.split())
    assert 1 <= narrow < wide < 2**12
    assert with_large_optimizer_state < wide


def test_option_that_needs_a_gpu_is_rejected_on_a_cpu(run: Runner) -> None:
    ended = run("train", "--cudnn-benchmark", "--device", "cpu", CUDA_VISIBLE_DEVICES="")
    assert ended.code == 2
    assert ended.err.splitlines()[-2:] == [
        "error: --cudnn-benchmark has no effect on cpu",
        "hint: leave it out, or use --device cuda",
    ]
