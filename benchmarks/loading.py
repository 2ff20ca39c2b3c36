"""Measures how the cost of data grows with their number: reading in memory, the order of an epoch, listing a folder.

Reading is the program's own loader, without workers, over small images in memory, a batch of 64 at a time: CPU
seconds per image from the second batch of an epoch on, and those up to the first, in which the order is made; data sets
of different sizes by turns. The folder is read by a process of its own as a run opens it, its entries in the kernel's
cache; memory is the most that the process had resident, above what it had with torch imported. One thread. Prints
medians and ranges over the rounds.

    python benchmarks/loading.py
    python benchmarks/loading.py --folder DIR
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from accel_train.data.loader import LoaderSizes, batches, train_loader
from accel_train.data.open import open_data
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import MemorySource, Source, Subset

BATCH = 64
CLASSES = 1000


class Reading(NamedTuple):
    """What it took to read, CPU seconds."""

    per_image: float
    per_start: float
    """Of an epoch, its first batch included."""


@dataclass(frozen=True)
class Listing:
    """What it took to open a folder."""

    pictures: int
    seconds: float
    bytes: int


def main() -> None:
    options = _parse()
    torch.set_num_threads(1)
    if options.list:
        sys.stdout.write(json.dumps(asdict(listing(options.list))))
        return
    sys.stdout.write(f"torch {torch.__version__}, one thread\n\n")
    _compare_reading(options.sizes, options.images, options.rounds)
    seconds = [order_seconds(options.files, epoch) for epoch in range(options.rounds)]
    sys.stdout.write(f"\norder of an epoch of {options.files:,} images: {spread(seconds, '.3f')} CPU s\n")
    sys.stdout.flush()
    if options.folder:
        _list_in_turns(options.folder, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        make_folder(Path(folder), options.files)
        _list_in_turns(Path(folder), options.rounds)


def _compare_reading(sizes: Sequence[int], images: int, rounds: int) -> None:
    sources = [noise(size) for size in sizes]
    taken = [[read(source, images) for source in sources] for _ in range(rounds)]
    head = "| images of the data set | CPU µs per image read | ÷ first | CPU ms to begin an epoch |"
    sys.stdout.write(f"{head}\n|---|---|---|---|\n")
    for size, found in zip(sizes, zip(*taken, strict=True), strict=True):
        ratios = [one.per_image / in_round[0].per_image for one, in_round in zip(found, taken, strict=True)]
        microseconds = spread([1e6 * one.per_image for one in found], ".2f")
        starts = spread([1e3 * one.per_start for one in found], ".2f")
        sys.stdout.write(f"| {size:,} | {microseconds} | {spread(ratios, '.3f')} | {starts} |\n")
    sys.stdout.flush()


def noise(images: int) -> Source:
    """Return a set of so many images, each one of a thousand: what is measured is not how fast memory is."""
    pixels = torch.randint(0, 256, (1000, 1, 8, 8), dtype=torch.uint8)
    return Subset(MemorySource(("0", "1"), pixels, torch.arange(1000) % 2), np.arange(images) % 1000)


def read(source: Source, images: int) -> Reading:
    """Read so many images, beginning an epoch anew when one is over."""
    sizes = LoaderSizes(batch_size=BATCH, processes=1, workers=0, pin_memory=False)
    loader, _ = train_loader(source, sizes, ImageOrder(0, len(source)), accumulate=1, epochs=1)
    reading = starting = 0.0
    count = starts = 0
    while count < images:
        asked = time.process_time()
        iterator = batches(loader)
        next(iterator)
        begun = time.process_time()
        count += sum(len(batch.labels_B) for batch in islice(iterator, (images - count) // BATCH + 1))
        reading += time.process_time() - begun
        starting += begun - asked
        starts += 1
    return Reading(reading / count, starting / starts)


def order_seconds(images: int, epoch: int) -> float:
    order = ImageOrder(0, images)
    started = time.process_time()
    order.tickets(epoch)
    return time.process_time() - started


def make_folder(root: Path, files: int) -> None:
    """Make empty files, in equally many classes as ImageNet has, and one to validate on."""
    classes = [f"class_{number:04}" for number in range(min(CLASSES, files))]
    for number, name in enumerate(classes):
        (root / "train" / name).mkdir(parents=True)
        for file in range(number, files, len(classes)):
            (root / "train" / name / f"picture_{file:08}.jpg").touch()
    (root / "val" / classes[0]).mkdir(parents=True)
    (root / "val" / classes[0] / "picture.jpg").touch()


def listing(root: Path) -> Listing:
    """Open a folder in this process, which must not have needed much memory before."""
    before, started = _peak_bytes(), time.perf_counter()
    data = open_data(str(root), directory=None, val_fraction=None, seed=0, limit=None)
    seconds = time.perf_counter() - started
    return Listing(len(data.train) + len(data.val), seconds, _peak_bytes() - before)


def _peak_bytes() -> int:
    """Return the most that was resident: Linux's own count, for getrusage's begins with what the parent has."""
    return int(Path("/proc/self/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) * 1024


def _list_in_turns(folder: Path, rounds: int) -> None:
    words = [sys.executable, __file__, "--list", str(folder)]
    ended = [subprocess.run(words, stdout=subprocess.PIPE, check=True) for _ in range(1 + rounds)]
    found = [Listing(**json.loads(one.stdout)) for one in ended[1:]]  # the first has filled the kernel's cache
    seconds, memory = spread([one.seconds for one in found], ".2f"), spread([one.bytes / 1e6 for one in found], ".0f")
    sys.stdout.write(f"listing a folder of {found[0].pictures:,} pictures: {seconds} s, {memory} MB\n")


def spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000], metavar="IMAGES")
    parser.add_argument("--images", type=int, default=1_000_000, help="to read of each data set in a turn, at least")
    parser.add_argument("--files", type=int, default=1_280_000, help="of the folder, and of the epoch that is ordered")
    parser.add_argument("--folder", type=Path, help="list this one, instead of making one of empty files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", type=Path, help=argparse.SUPPRESS)  # in the process it starts
    options = parser.parse_args()
    if min(options.sizes) < 2 * BATCH:
        parser.error(f"--sizes {min(options.sizes)}: give two batches or more, which are {2 * BATCH} images")
    return options


if __name__ == "__main__":
    main()
