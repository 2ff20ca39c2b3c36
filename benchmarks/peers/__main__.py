"""Compares accel_train with other trainers on the same work: `cnn` on FashionMNIST with SGD, without augmentation.

Each turn is a process of its own, or two that communicate over Gloo; a round is one turn of each trainer. Images/s are
measured from the second update to the last, by a clock in the process. Prints a table, and plots it.

    python -m benchmarks.peers --rounds 5
    python -m benchmarks.peers --accuracy
"""

import argparse
import itertools
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.report import BARE, OURS, as_json, draw, rows, setting, table, versions
from benchmarks.peers.rounds import take_rounds
from benchmarks.peers.work import Work

TRAINERS = {
    BARE: "best bare loop",
    OURS: "accel_train",
    "plain": "plain torch loop",
    "torchvision_reference": "torchvision's reference, its form",
    "accelerate_example": "Accelerate's example, its form",
    "timm_form": "timm's train.py, its form",
    "lightning_trainer": "Lightning's Trainer",
}
"""Name in tables of each module of this package that trains."""
_NEEDED = {"timm_form": "timm", "lightning_trainer": "lightning"}


def main() -> None:
    options = _parse()
    found = {}
    if not options.json:
        sys.stdout.write(f"{versions()}, {options.threads} threads\n\n")
    for processes, batch_size, precision in itertools.product(
        options.processes, options.batch_sizes, options.precisions
    ):
        work = Work(
            batch_size,
            options.images,
            epochs=options.epochs,
            processes=processes,
            precision=precision,
            device=options.device,
        )
        turns = take_rounds(
            options.trainers, work, rounds=options.rounds, threads=options.threads, evaluate=options.accuracy
        )
        found[setting(work)] = rows(turns)
        if not options.json:
            sys.stdout.write(f"{setting(work)}\n\n{table(TRAINERS, found[setting(work)])}\n")
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(as_json(found))
    if options.figure:
        draw(options.figure, TRAINERS, found)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[64, 256], help="images per process")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "bf16"], default=["fp32"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="all processes together")
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=list(TRAINERS))
    parser.add_argument("--images", type=int, default=12_800, help="number of training images: the first ones")
    parser.add_argument("--epochs", type=int, default=1, help="speed is measured in the first")
    parser.add_argument(
        "--accuracy", action="store_true", help="evaluate too; changes the defaults to all images and 5 epochs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--figure", type=Path, help="plot images/s into this SVG or PNG file")
    if parser.parse_known_args()[0].accuracy:
        parser.set_defaults(
            rounds=1, batch_sizes=[64], processes=[1], trainers=[OURS, "plain"], images=60_000, epochs=5
        )
    options = parser.parse_args()
    needed = {_NEEDED[trainer] for trainer in options.trainers if trainer in _NEEDED}
    needed |= {"matplotlib"} if options.figure else set()
    if missing := sorted(package for package in needed if find_spec(package) is None):
        parser.error(f"{' and '.join(missing)} not installed: pip install -e '.[bench]'")
    if options.device == "cuda" and options.processes != [1]:
        parser.error("--device cuda: give --processes 1")
    least = 2 * max(options.batch_sizes) * max(options.processes)
    if options.images < least:
        parser.error(f"--images {options.images}: give at least {least:,}, two updates")
    return options


if __name__ == "__main__":
    main()
