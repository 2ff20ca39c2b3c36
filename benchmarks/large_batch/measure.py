"""Trains on FashionMNIST with ever larger global batches, the same epochs and the same micro-batches of 64 images.

A run that the CSV file has already is left out, so that the series can be continued. `--options` are given to every run
and written into its row, such as those that try another learning rate:

    python -m benchmarks.large_batch.measure --out benchmarks/large_batch/results.csv
    python -m benchmarks.large_batch.measure --out results.csv --rows linear lars --batches 8192 --seeds 0 \\
        --options lr=0.8 lr_scaling=none
"""

import argparse
import csv
import itertools
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import accel_train
from accel_train.events import EpochEnd, RunStarted
from accel_train.training.nonfinite import Diverged

COMMON: dict[str, Any] = {
    "data": "fashion-mnist",
    "model": "benchmarks.large_batch.model:small_resnet",
    "batch_size": 64,
    "epochs": 6,
    "warmup_epochs": 1.0,
    "threads": 1,
    "device": "cpu",
    "log_every": 5,
    "report": False,
    "keep": 1,
}
"""What all runs are given."""
SGD = {"optimizer": "sgd", "lr": 0.1}
ROWS: dict[str, dict[str, Any]] = {
    "linear": {**SGD, "lr_scaling": "linear"},
    "no-warmup": {**SGD, "lr_scaling": "linear", "warmup_epochs": 0.0},
    "unscaled": {**SGD, "lr_scaling": "none"},
    "lars": {"optimizer": "lars", "lr": 0.4, "lr_scaling": "sqrt"},
    "lamb": {"optimizer": "lamb", "lr": 0.016, "lr_scaling": "sqrt"},
}
"""What the runs of a row are given besides."""
BATCHES = (64, 256, 1024, 4096, 8192)
BASE_BATCH = 256
"""The batch that the learning rates are for: there `unscaled` is the same run as `linear`."""
FEWER = {
    "unscaled": tuple(batch for batch in BATCHES if batch != BASE_BATCH),
    "lars": BATCHES[-2:],
    "lamb": BATCHES[-2:],
}
"""The batches of the rows that have not all of them."""
SEEDS = (0, 1, 2)
KEY = ("row", "global_batch", "seed", "options")
COLUMNS = (
    *KEY,
    *("accuracy", "best", "val_loss", "train_accuracy", "noise_scales"),
    *("peak_lr", "warmup_updates", "updates", "error", "cpu_seconds"),
)


def main() -> None:
    """Run every cell that the CSV file lacks."""
    args = arguments()
    if not args.out.exists():
        args.out.write_text(",".join(COLUMNS) + "\n")
    done = {tuple(run[name] for name in KEY) for run in results(args.out)}
    cells = [(row, batch) for row in args.rows for batch in args.batches or FEWER.get(row, BATCHES)]
    for seed, (row, batch) in itertools.product(args.seeds, cells):
        key = (row, str(batch), str(seed), " ".join(args.options))
        if key in done:
            continue
        options = dict(option.split("=", 1) for option in args.options)
        given = COMMON | ROWS[row] | {"global_batch_size": batch, "seed": seed} | options
        result = dict(zip(KEY, key, strict=True)) | in_its_own_process(given)
        with args.out.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(result)
        print(*key, result["error"] or f"accuracy {result['accuracy']:.4f}", flush=True)


def results(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def in_its_own_process(given: dict[str, Any]) -> dict[str, Any]:
    """Train in a new process, so that nothing of one run reaches the next, and return the results."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as process:
        return process.submit(train, given).result()


def train(given: dict[str, Any]) -> dict[str, Any]:
    """Train, and return the results; those of a run that diverged have an error and no accuracy."""
    result: dict[str, Any] = {"error": ""}
    epochs: list[EpochEnd] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for event in accel_train.train(accel_train.TrainConfig(**given, output=Path(folder, "run"))):
                if isinstance(event, RunStarted):
                    plan = event.plan
                    result |= {"peak_lr": plan.peak_lr, "updates": plan.total_updates}
                    result |= {"warmup_updates": plan.warmup_updates}
                elif isinstance(event, EpochEnd):
                    epochs.append(event)
            last = epochs[-1]
            result |= {"accuracy": last.val_accuracy, "val_loss": last.val_loss, "train_accuracy": last.train_accuracy}
        except Diverged as error:
            result["error"] = error.message
    result["best"] = max((epoch.val_accuracy for epoch in epochs), default="")
    result["noise_scales"] = " ".join(f"{e.noise_scale:.0f}" if e.noise_scale else "-" for e in epochs)
    return result | {"cpu_seconds": round(time.process_time(), 1)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=ROWS)
    parser.add_argument("--batches", nargs="+", type=int)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
