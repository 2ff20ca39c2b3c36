"""Measures how three costs grow with the size of a data set: in-memory reads, an epoch's order, listing a folder.

Reads use accel_train's own loader without workers, on small images in memory, 64 per batch. The first figure is CPU
seconds per image from the second batch of an epoch on; the second is CPU seconds to the first batch, which include
computing the order. Data sets of different sizes take turns. A folder is opened as a run opens it, in a separate
process, with its entries in the kernel's cache; memory is that process's peak resident memory, minus what it had after
importing torch. One thread. Prints medians and ranges over the rounds.

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
from accel_train.data.sources.base import Source, Subset, View
from accel_train.data.sources.memory import MemorySource

BATCH = 64
CLASSES = 1000


class Reading(NamedTuple):
    """CPU seconds of reading."""

    per_image: float
    per_start: float
    """To the first batch of an epoch, inclusive."""


@dataclass(frozen=True)
class Listing:
    """Cost of opening a folder."""

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
    head = "| images of the data set | CPU µs per image read | ÷ first | CPU ms to start an epoch |"
    sys.stdout.write(f"{head}\n|---|---|---|---|\n")
    for size, found in zip(sizes, zip(*taken, strict=True), strict=True):
        ratios = [one.per_image / in_round[0].per_image for one, in_round in zip(found, taken, strict=True)]
        microseconds = spread([1e6 * one.per_image for one in found], ".2f")
        starts = spread([1e3 * one.per_start for one in found], ".2f")
        sys.stdout.write(f"| {size:,} | {microseconds} | {spread(ratios, '.3f')} | {starts} |\n")
    sys.stdout.flush()


def noise(images: int) -> Source:
    """Return a data set that repeats 1,000 images, so that the speed of memory does not count."""
    pixels = torch.randint(0, 256, (1000, 1, 8, 8), dtype=torch.uint8)
    return Subset(MemorySource(("0", "1"), pixels, torch.arange(1000) % 2), np.arange(images) % 1000)


def read(source: Source, images: int) -> Reading:
    """Read at least `images` images, in as many epochs as needed."""
    sizes = LoaderSizes(batch_size=BATCH, replicas=1, workers=0, pin_memory=False)
    view = View(max(source.shape[1:]), random_crop=False)
    loader, _ = train_loader(source, view, sizes, ImageOrder(0, len(source)), blocks=[range(1)], epochs=1)
    reading = starting = 0.0
    count = starts = 0
    while count < images:
        epoch_began = time.process_time()
        iterator = batches(loader)
        next(iterator)
        first_batch = time.process_time()
        count += sum(len(batch.labels_B) for batch in islice(iterator, (images - count) // BATCH + 1))
        reading += time.process_time() - first_batch
        starting += first_batch - epoch_began
        starts += 1
    return Reading(reading / count, starting / starts)


def order_seconds(images: int, epoch: int) -> float:
    order = ImageOrder(0, images)
    started = time.process_time()
    order.sample_indices(epoch)
    return time.process_time() - started


def make_folder(root: Path, files: int) -> None:
    """Make empty training files in as many classes as ImageNet has, and one validation file."""
    classes = [f"class_{number:04}" for number in range(min(CLASSES, files))]
    for number, name in enumerate(classes):
        (root / "train" / name).mkdir(parents=True)
        for file in range(number, files, len(classes)):
            (root / "train" / name / f"picture_{file:08}.jpg").touch()
    (root / "val" / classes[0]).mkdir(parents=True)
    (root / "val" / classes[0] / "picture.jpg").touch()


def listing(root: Path) -> Listing:
    """Open a folder in this process, whose peak memory must be low until then."""
    before, started = _peak_bytes(), time.perf_counter()
    data = open_data(str(root), directory=None, val_fraction=None, seed=0, limit=None)
    seconds = time.perf_counter() - started
    return Listing(len(data.train) + len(data.val), seconds, _peak_bytes() - before)


def _peak_bytes() -> int:
    """Return peak resident memory, from /proc: getrusage starts with the parent's memory."""
    return int(Path("/proc/self/status").read_text(encoding="utf-8").partition("VmHWM:")[2].split()[0]) * 1024


def _list_in_turns(folder: Path, rounds: int) -> None:
    words = [sys.executable, __file__, "--list", str(folder)]
    ended = [subprocess.run(words, stdout=subprocess.PIPE, check=True) for _ in range(1 + rounds)]
    found = [Listing(**json.loads(one.stdout)) for one in ended[1:]]  # the first filled the kernel's cache
    seconds, memory = spread([one.seconds for one in found], ".2f"), spread([one.bytes / 1e6 for one in found], ".0f")
    sys.stdout.write(f"listing a folder of {found[0].pictures:,} pictures: {seconds} s, {memory} MB\n")


def spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000, 100_000, 1_000_000], metavar="IMAGES")
    parser.add_argument("--images", type=int, default=1_000_000, help="minimum to read of each data set in a turn")
    parser.add_argument("--files", type=int, default=1_280_000, help="in the folder, and images in the epoch to order")
    parser.add_argument("--folder", type=Path, help="list this folder instead of one made of empty files")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--list", type=Path, help=argparse.SUPPRESS)  # for the subprocess
    options = parser.parse_args()
    if min(options.sizes) < 2 * BATCH:
        parser.error(f"--sizes {min(options.sizes)}: give at least {2 * BATCH} images, two batches")
    return options


if __name__ == "__main__":
    main()
