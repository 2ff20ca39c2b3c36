"""The benchmark of large batches resumes from its CSV file, and its table and figures show what was measured."""

import csv
import os
import sys
from pathlib import Path

import pytest
from helpers.runner import Ended, Runner

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def bench(run: Runner, module: str, *options: str) -> Ended:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    words = [sys.executable, "-m", f"benchmarks.large_batch.{module}", *options]
    return run.program(words, timeout=240, PYTHONPATH=path)


def test_series_is_continued(run: Runner) -> None:
    few = ("--out", "a.csv", "--options", "data=digits", "epochs=2", "limit=512", "--batches", "64", "--seeds", "0")
    begun = bench(run, "measure", *few, "--rows", "linear")
    assert begun.code == 0, begun.err
    continued = bench(run, "measure", *few, "--rows", "linear", "unscaled")
    assert [line.split()[:3] for line in continued.out.splitlines()] == [["unscaled", "64", "0"]], continued.err
    with (run.folder / "a.csv").open(newline="") as file:
        runs = list(csv.DictReader(file))
    assert [(row["row"], row["peak_lr"], row["updates"], row["warmup_updates"], row["error"]) for row in runs] == [
        ("linear", "0.025", "16", "8", ""),
        ("unscaled", "0.1", "16", "8", ""),
    ]
    assert all(0 < float(row["accuracy"]) <= float(row["best"]) <= 1 for row in runs)


def test_table_has_means_and_figures_have_all_rows(run: Runner) -> None:
    runs = [
        ("linear", 64, 0, "", "0.9"),
        ("linear", 64, 1, "", "0.8"),
        ("linear", 256, 0, "", "0.6"),  # the same run as without scaling
        ("no-warmup", 64, 0, "", ""),  # NaN: at chance
        ("unscaled", 64, 0, "", "0.5"),
        ("lars", 8192, 0, "", "0.7"),
        ("lars", 8192, 0, "lr=1", "0.2"),  # not of the series
    ]
    with (run.folder / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("row", "global_batch", "seed", "options", "accuracy"), *runs])
    ended = bench(run, "figure", "a.csv", "--draw", "drawn", "--noise-scale", "500", "900")
    assert ended.code == 0, ended.err
    assert ended.out.splitlines() == [
        "| | 64 | 256 | 8,192 |",
        "|---|---:|---:|---:|",
        "| linear scaling, warmup | 85.0 ± 7.1 | 60.0 |  |",
        "| linear scaling, no warmup | 10.0 |  |  |",
        "| LR not scaled | 50.0 | 60.0 |  |",
        "| LARS |  |  | 70.0 |",
    ]
    light, dark = ((run.folder / f"drawn_{theme}.svg").read_text() for theme in ("light", "dark"))
    for drawing in (light, dark):
        for word in ("linear scaling, warmup", "LARS", "gradient noise scale", "8,192"):
            assert f">{word}</text>" in drawing
        assert "LAMB" not in drawing
    assert "#0969da" in light
    assert "#58a6ff" in dark
