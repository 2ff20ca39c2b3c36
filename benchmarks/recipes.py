"""Trains recipes on FashionMNIST, and the forms of timm's and torchvision's scripts for as many CPU seconds.

Each run has one thread, so that CPU seconds are seconds on a machine that does nothing else. Those of a recipe include
its start and its validation after each epoch; those of the other forms are of training alone. These train the model of
their script, on images of 224 pixels, and models of accel_train, on images of 28, with a schedule that ends when the
time is over. A run that is in the CSV file already is left out, so that a series can be continued. Prints means and
standard deviations over seeds.

    python -m benchmarks.recipes --out results.csv --seeds 0 1 2
"""

import argparse
import csv
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, stdev

COLUMNS = ("recipe", "program", "model", "seed", "cpu_seconds", "accuracy")
OURS = "accel_train"
Row = dict[str, str]


def main() -> None:
    """Run what the CSV file lacks, then print all it has as a table."""
    args = arguments()
    for recipe, seed in itertools.product(args.recipes, args.seeds):
        seconds = with_recipe(args.out, recipe, seed, args.options)
        for form, model in itertools.product(args.forms, args.models):
            with_form(args.out, recipe, form, model, seed, seconds)
    for line in table_lines(rows_of(args.out)):
        print(line)


def with_recipe(out: Path, recipe: str, seed: str, options: Sequence[str]) -> float:
    """Train a recipe unless that is done; return its CPU seconds."""
    if found := done(out, recipe, OURS, "recipe", seed):
        return float(found["cpu_seconds"])
    before = cpu_seconds_of_children()
    with tempfile.TemporaryDirectory() as folder:
        words = ("--recipe", recipe, "--seed", seed, "--threads", "1", "--no-report", "--json", "--output", folder)
        more = (f"--{option}" for option in options)
        lines = output_of("accel_train", "train", *words, *more).splitlines()
    seconds = cpu_seconds_of_children() - before
    epochs = [record for record in map(json.loads, lines) if record["kind"] == "epoch"]
    append(out, recipe, OURS, "recipe", seed, f"{seconds:.1f}", f"{epochs[-1]['val_accuracy']:.4f}")
    return seconds


def with_form(out: Path, recipe: str, form: str, model: str, seed: str, seconds: float) -> None:
    """Train the form of a script for these CPU seconds unless that is done."""
    if done(out, recipe, form, model, seed):
        return
    words = ("--form", form, "--model", model, "--seed", seed, "--seconds", f"{seconds:.1f}", "--clock", "cpu", "--fit")
    line = output_of("benchmarks.defaults.others", *words)
    append(out, recipe, form, model, seed, f"{seconds:.1f}", line.split()[-1])


def output_of(module: str, *words: str) -> str:
    """Run a module with one thread, and return what it prints."""
    command = [sys.executable, "-m", module, *words]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=one_thread, check=True, stdout=subprocess.PIPE, text=True).stdout


def cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def done(out: Path, *key: str) -> Row | None:
    """Return the row of a run, None if it is not in the file."""
    return next((row for row in rows_of(out) if tuple(row[name] for name in COLUMNS[:4]) == key), None)


def rows_of(out: Path) -> list[Row]:
    if not out.exists():
        return []
    with out.open(newline="") as file:
        return list(csv.DictReader(file, COLUMNS))


def append(out: Path, *values: str) -> None:
    with out.open("a", newline="") as file:
        csv.writer(file).writerow(values)


def table_lines(rows: Iterable[Row]) -> list[str]:
    """Return a Markdown table, a row per recipe, program and model."""
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["recipe"], row["program"], row["model"]].append(row)
    lines = ["| beside | program | model | CPU s | accuracy | runs |", "|---|---|---|---:|---:|---:|"]
    for key, runs in groups.items():
        seconds = mean(float(run["cpu_seconds"]) for run in runs)
        accuracies = spread([100 * float(run["accuracy"]) for run in runs])
        lines.append(f"| {' | '.join(key)} | {seconds:.0f} | {accuracies} | {len(runs)} |")
    return lines


def spread(values: Sequence[float]) -> str:
    """Return mean and standard deviation."""
    return f"{mean(values):.2f}" + (f" ±{stdev(values):.2f}" if len(values) > 1 else "")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipes", nargs="+", default=["fashion_mnist_fast", "fashion_mnist_lab"])
    parser.add_argument("--forms", nargs="*", default=["timm", "torchvision"])
    parser.add_argument("--models", nargs="*", default=["own", "cnn"], help="own: that of the script")
    parser.add_argument("--seeds", nargs="+", default=["0", "1", "2"])
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE", help="more of train, for the recipes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
