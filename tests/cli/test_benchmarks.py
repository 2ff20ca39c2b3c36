"""The programs of benchmarks/ run from end to end on little work, and their tables say what was measured."""

import json
import os
import sys
from pathlib import Path

import pytest
from conftest import Ended, Runner

ROOT = Path(__file__).parents[2]


def bench(run: Runner, module: str, *options: str) -> Ended:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-m", f"benchmarks.{module}", *options]
    return run.program(words, timeout=240, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="")


def test_peers_are_compared_on_two_processes(run: Runner) -> None:
    sizes = ("--processes", "2", "--batch-sizes", "16", "--images", "128", "--rounds", "1", "--threads", "2")
    ended = bench(run, "peers", *sizes, "--trainers", "bare", "ours", "plain", "--json")
    assert ended.code == 0, ended.err
    (rows,) = json.loads(ended.out)["settings"].values()
    speeds = {row["trainer"]: row["images_per_second"] for row in rows}
    assert list(speeds) == ["bare", "ours", "plain"]
    for row in rows:
        assert row["to_bare"] == pytest.approx(row["images_per_second"] / speeds["bare"])
        assert row["to_fastest_peer"] == pytest.approx(row["images_per_second"] / speeds["plain"])
        assert row["seconds_to_first_update"] > 0.5  # importing torch alone takes that
        assert row["peak_bytes"] > 2 * 100e6  # two processes with torch


def test_accuracy_of_the_same_settings_is_compared(run: Runner) -> None:
    sizes = ("--images", "2560", "--epochs", "2", "--threads", "1")
    ended = bench(run, "peers", "--accuracy", *sizes)
    assert ended.code == 0, ended.err
    ours, plain = (line.split("|") for line in ended.out.splitlines()[-3:-1])
    assert (ours[1].strip(), plain[1].strip()) == ("accel_train", "plain torch loop")
    accuracies = [float(cells[-2].strip(" %")) for cells in (ours, plain)]
    assert min(accuracies) > 60
    assert abs(accuracies[0] - accuracies[1]) < 8


def test_the_gpu_program_runs_where_it_is_tried_on_a_cpu_and_else_needs_a_gpu(run: Runner) -> None:
    refused = bench(run, "gpu")
    assert refused.code == 1
    assert refused.err == "error: no GPU can be used here; --cpu tries the program itself\n"
    tiny = (
        "--works",
        "fashion-mnist",
        "--batch-sizes",
        "8",
        "--updates",
        "3",
        "--precisions",
        "fp32",
        "--threads",
        "1",
    )
    ended = bench(run, "gpu", "--cpu", *tiny)
    assert ended.code == 0, ended.err
    (channels_first, channels_last) = ended.out.split("cnn on ")[1:]
    assert "channels first" in channels_first
    assert "accel_train" not in channels_first
    assert "accel_train" in channels_last
