"""Trains with nothing set but data, model, optimizer and global batch, and appends a row per run to a CSV file.

A run that is in the file already is left out, so that a series can be continued. Options after `--` are given to every
run, such as `lr=0.1 lr_scaling=none` to try another learning rate; they are written into the row.

    python -m benchmarks.defaults.pictures pictures
    python -m benchmarks.defaults.measure --out results.csv --pictures pictures --sets digits --models cnn \\
        --optimizers sgd adamw --batches 16 64 256 1024 --seeds 0 1 2
"""

import argparse
import csv
import itertools
import os
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import accel_train
from accel_train.errors import UserError
from accel_train.events import EpochEnd, Notice, RunStarted

SETS: dict[str, dict[str, Any]] = {
    "digits": {"data": "digits"},
    "fashion-12000": {"data": "fashion-mnist", "limit": 12_000, "epochs": 3},
    "fashion-mnist": {"data": "fashion-mnist"},
    "photos32": {"data": "photos32"},
    "photos280": {"data": "photos280"},
    "photos300": {"data": "photos300"},
}
"""What is given for each data set; a folder is one of `--pictures`."""
COLUMNS = (
    *("set", "model", "optimizer", "global_batch", "seed", "options", "accuracy", "best"),
    *("peak_lr", "updates", "notices", "error", "seconds"),
)
KEY = COLUMNS[:6]


def main() -> None:
    """Run every cell that the CSV file lacks."""
    args = arguments()
    args.out.touch()
    with args.out.open(newline="") as file:
        done = {tuple(row[name] for name in KEY) for row in csv.DictReader(file, COLUMNS)}
    cells = itertools.product(args.seeds, args.sets, args.models, args.optimizers, args.batches)
    for seed, name, model, optimizer, batch in cells:
        key = (name, model, optimizer, batch, seed, " ".join(args.options))
        if tuple(map(str, key)) in done:
            continue
        row = dict(zip(KEY, key, strict=True)) | measured(name, model, optimizer, batch, seed, args)
        with args.out.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS).writerow(row)


def measured(name: str, model: str, optimizer: str, batch: str, seed: str, args: argparse.Namespace) -> dict[str, Any]:
    given = {**SETS[name], "optimizer": optimizer, "global_batch_size": batch, "seed": seed}
    given |= {"model": model} if model != "default" else {}
    given |= dict(option.split("=", 1) for option in args.options)
    if (folder := args.pictures / given["data"]).is_dir():
        given["data"] = str(folder)
    return in_its_own_process(given)


def in_its_own_process(given: dict[str, Any]) -> dict[str, Any]:
    """Train in a process that has imported torch already, and return the results."""
    context = get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=train, args=(given, queue))
    process.start()
    result: dict[str, Any] = queue.get()
    process.join()
    return result


def train(given: dict[str, Any], queue: Any) -> None:
    """Train, and put the results into the queue."""
    began = time.perf_counter()
    result: dict[str, Any] = {"error": "ended without a word", "notices": ""}
    with tempfile.TemporaryDirectory() as folder:
        try:
            config = accel_train.TrainConfig(**given, output=f"{folder}/run", keep=1)
            for event in accel_train.train(config):
                if isinstance(event, RunStarted):
                    result |= {"peak_lr": event.plan.peak_lr, "updates": event.plan.total_updates}
                elif isinstance(event, Notice):
                    result["notices"] += event.text + " | "
                elif isinstance(event, EpochEnd):
                    result["accuracy"] = round(event.val_accuracy, 4)
                    result["best"] = max(result.get("best", 0.0), result["accuracy"])
            result["error"] = ""
        except (UserError, RuntimeError, ValueError) as error:
            result["error"] = str(error)
    result["seconds"] = round(time.perf_counter() - began, 1)
    queue.put(result)
    sys.stdout.flush()
    os._exit(0)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, default=Path("pictures"))
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--models", nargs="+", default=["cnn"], help="`default` for the default of the data set")
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "adamw"])
    parser.add_argument("--batches", nargs="+", default=["16", "64", "256", "1024", "4096"])
    parser.add_argument("--seeds", nargs="+", default=["0"])
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
