"""The programs of benchmarks/ run on little work, and their tables show what was measured."""

import json
import os
import sys
from pathlib import Path

import pytest
from helpers.runner import Ended, Runner
from PIL import Image

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def bench(run: Runner, module: str, *options: str, forked: bool = True) -> Ended:
    """Run a benchmark; those of start-up and memory must not be forked."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-m", f"benchmarks.{module}", *options]
    return (run.python if forked else run.program)(words, timeout=240, PYTHONPATH=path, CUDA_VISIBLE_DEVICES="")


def test_peers_are_compared_on_two_processes(run: Runner) -> None:
    sizes = ("--processes", "2", "--batch-sizes", "16", "--images", "128", "--rounds", "1", "--threads", "2")
    ended = bench(run, "peers", *sizes, "--trainers", "bare", "ours", "plain", "--json", forked=False)
    assert ended.code == 0, ended.err
    (rows,) = json.loads(ended.out)["settings"].values()
    speeds = {row["trainer"]: row["images_per_second"] for row in rows}
    assert list(speeds) == ["bare", "ours", "plain"]
    for row in rows:
        assert row["to_bare"] == pytest.approx(row["images_per_second"] / speeds["bare"])
        assert row["to_fastest_peer"] == pytest.approx(row["images_per_second"] / speeds["plain"])
        assert row["seconds_to_first_update"] > 0.5  # importing torch alone takes that
        assert row["peak_bytes"] > 2 * 100e6  # two processes with torch


def test_accuracy_is_compared_with_equal_settings(run: Runner) -> None:
    sizes = ("--images", "2560", "--epochs", "2", "--threads", "1")
    ended = bench(run, "peers", "--accuracy", *sizes)
    assert ended.code == 0, ended.err
    ours, plain = (line.split("|") for line in ended.out.splitlines()[-3:-1])
    assert (ours[1].strip(), plain[1].strip()) == ("accel_train", "plain torch loop")
    accuracies = [float(cells[-2].strip(" %")) for cells in (ours, plain)]
    assert min(accuracies) > 60
    assert abs(accuracies[0] - accuracies[1]) < 8


@pytest.mark.chaos
def test_idle_share_of_a_pipeline_is_about_that_of_the_formula(run: Runner) -> None:
    ended = bench(
        run, "pipeline", "--model", "pauses", "--micro-batches", "1", "4", "--batch-size", "2", "--svg", "a.svg"
    )
    assert ended.code == 0, ended.err
    rows = [line.strip("| ").split(" | ") for line in ended.out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["1", "50 %"], ["4", "20 %"]]
    for (_, formula, *found), slack in zip(rows, (8, 15), strict=True):
        least = int(formula.split()[0])
        assert all(least - 1 <= int(share.split()[0]) <= least + slack for share in found), rows
    drawing = (run.folder / "a.svg").read_text(encoding="utf-8")
    assert drawing.startswith("<svg")
    assert drawing.count("<circle") == 4 + 3  # measured, and the legend


def test_gpu_benchmark_needs_a_gpu_or_cpu_option(run: Runner) -> None:
    refused = bench(run, "gpu")
    assert refused.code == 1
    assert refused.err == "error: no GPU is available here; use --cpu to test this program\n"
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


def cells(ended: Ended) -> dict[str, list[str]]:
    """Return the cells of a program's tables by the first one of their row."""
    assert ended.code == 0, ended.err
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in ended.out.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in rows}


def number(cell: str) -> float:
    return float(cell.split(maxsplit=1)[0].replace(",", ""))


def test_techniques_are_compared_with_our_defaults(run: Runner) -> None:
    tiny = ("--works", "cnn", "--updates", "3", "--rounds", "1", "--threads", "1")
    rows = cells(bench(run, "techniques", *tiny, "--variants", "channels first", "foreach optimizer", "bf16 autocast"))
    base = rows["our defaults"]
    assert number(base[1]) == 1
    for name in ("channels first", "foreach optimizer", "bf16 autocast"):
        assert number(rows[name][1]) == pytest.approx(number(rows[name][0]) / number(base[0]), abs=0.006)
        assert 0 < number(rows[name][2]) < 20  # nothing is compiled


def test_start_up_is_compared_with_a_bare_update(run: Runner) -> None:
    ended = bench(run, "start_up", "--data", "digits", "--rounds", "1", forked=False)
    rows = cells(ended)
    for column in (0, 1):
        bare, ours, difference = (number(rows[name][column]) for name in ("bare", "accel_train train", "difference"))
        assert bare > 0.5  # importing torch alone takes that
        assert difference == pytest.approx(ours - bare, abs=0.02)
    assert number(ended.out.rpartition(": ")[2]) > 0  # of --help


def test_data_cost_is_measured_by_number_of_images(run: Runner) -> None:
    ended = bench(run, "loading", "--sizes", "250", "1000", "--images", "2000", "--files", "100", "--rounds", "1")
    rows = cells(ended)
    assert number(rows["250"][1]) == 1
    assert number(rows["1,000"][1]) == pytest.approx(number(rows["1,000"][0]) / number(rows["250"][0]), rel=0.1)
    assert "order of an epoch of 100 images" in ended.out
    assert "listing a folder of 101 pictures" in ended.out  # one validates


def test_wait_for_pictures_is_measured(run: Runner) -> None:
    for split in ("train", "val"):
        for number_of_class, name in enumerate(("dark", "bright")):
            folder = run.folder / "pictures" / split / name
            folder.mkdir(parents=True)
            for picture in range(64):
                Image.new("RGB", (40, 40), (number_of_class * 200, picture, 0)).save(folder / f"{picture}.png")
    rows = cells(bench(run, "data_wait", "--data", "pictures", "--epochs", "1", "--updates", "3", "--size", "64"))
    assert 0 < float(rows["folder"][0].rstrip("%")) < 100
    assert number(rows["folder"][1]) > 0


def test_cost_of_augmentation_is_measured(run: Runner) -> None:
    tiny = ("--batch-size", "4", "--size", "16", "--rounds", "1")
    ended = bench(run, "augmentation", *tiny, "--cpu", "--rows", "none", "strong")
    assert ended.code == 0, ended.err
    update, none, strong = ([float(word) for word in line.split()[1:]] for line in ended.out.splitlines()[2:])
    assert strong[0] > none[0] > 0
    assert strong[1] == pytest.approx(update[0] / (update[0] + strong[0]), abs=0.01)
    ended = bench(run, "augmentation", *tiny, "--rows", "mixup")
    assert ended.code == 0, ended.err
    bare, ours, ratio = map(float, ended.out.splitlines()[-1].split()[1:])
    assert ours / bare == pytest.approx(ratio, abs=0.01)


def test_memory_is_compared_with_the_bare_loop(run: Runner) -> None:
    tiny = ("--images", "640", "--batch-sizes", "64", "--processes", "2", "--rounds", "1")
    _, bare, ours, ratio = cells(bench(run, "memory", *tiny, forked=False))["2"]
    assert min(number(bare), number(ours)) > 200
    assert number(ratio) == pytest.approx(number(ours) / (number(bare) + 54.88), abs=0.01)


def test_recipe_is_compared_with_a_script_in_as_many_seconds_and_not_run_twice(run: Runner) -> None:
    words = ("--out", "a.csv", "--recipes", "digits", "--seeds", "0", "--options", "epochs=1", "limit=64")
    ended = bench(run, "recipes", *words, "--forms", "timm", "--models", "mlp")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[:2] == [
        "| beside | program | model | CPU s | accuracy | runs |",
        "|---|---|---|---:|---:|---:|",
    ]
    ours, timm = (line.strip("| ").split(" | ") for line in ended.out.splitlines()[2:])
    assert (ours[:3], timm[:3]) == (["digits", "accel_train", "recipe"], ["digits", "timm", "mlp"])
    assert ours[3] == timm[3]  # rounded: 0 on a fast machine
    assert all(0 <= float(row[4]) <= 100 and row[5] == "1" for row in (ours, timm))
    again = bench(run, "recipes", *words, "--forms")
    assert (again.code, again.out) == (0, ended.out)
