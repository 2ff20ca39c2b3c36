"""Measures the cost of `--exact`: images/s with and without it, alternating, on one process and on two.

All runs use one thread per process, the default under `--exact`. Prints the medians of images/s, and median and range
of the ratios.

    python benchmarks/exact_cost.py --rounds 5
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch


def images_per_second(processes: int, images: int, exact: bool) -> float:
    """Train, and return the images/s that the run reports: from the second update on, excluding validation."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                *(sys.executable, "-m", "accel_train", "train", "--no-report"),
                *("--data", "fashion-mnist", "--limit", str(images)),
                *("--epochs", "1", "--global-batch-size", "128", "--batch-size", "64", "--device", "cpu"),
                *("--processes", str(processes), "--threads", "1", "--output", f"{folder}/run", "--quiet"),
                "--exact" if exact else "--no-exact",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        records = map(json.loads, Path(folder, "run", "metrics.jsonl").read_text(encoding="utf-8").splitlines())
        return next(float(record["images_per_second"]) for record in records if record["kind"] == "end")


def compare(processes: int, images: int, rounds: int) -> None:
    rates = [tuple(images_per_second(processes, images, exact) for exact in (False, True)) for _ in range(rounds)]
    default, exact = (statistics.median(side) for side in zip(*rates, strict=True))
    ratios = [with_it / without for without, with_it in rates]
    ratio = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    sys.stdout.write(f"{processes:>9}  {default:>8,.0f}  {exact:>8,.0f}  {ratio}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=6_400)
    options = parser.parse_args()
    sys.stdout.write(f"torch {torch.__version__}; images/s, medians\n")
    sys.stdout.write("processes   default     exact  exact/default\n")
    for processes in (1, 2):
        compare(processes, options.images, options.rounds)


if __name__ == "__main__":
    main()
