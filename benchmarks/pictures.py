"""Measures how many pictures a core reads in a second: the usual way and ours, alternating in one process.

The usual way is torchvision's ImageFolder with Pillow, RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize,
in a DataLoader. Ours is the program's own loader up to its uint8 batch ("read"), and up to the normalised float batch
after it was mirrored ("batch"), from the folder and, if one is given, from the same folder packed. One thread, no
workers; times are CPU seconds, so that others on the machine count for little. Prints medians, and medians and ranges
of the ratios to the usual way in the same round.

    python benchmarks/pictures.py --data DIR --packed DIR
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from accel_train.config.defaults import Augmentation
from accel_train.data.loader import LoaderSizes, batches, train_loader
from accel_train.data.open import open_data
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import DataSet
from accel_train.data.transforms import ImageTransform
from accel_train.training.torch_settings import keep_freed_memory

BATCH = 64
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Turn = Callable[[int, int, int], tuple[float, ...]]
"""Takes the crop's size, a number of batches and a seed; returns images/s of a core, as many as it measures."""


def usual(root: Path) -> Turn:
    def turn(size: int, count: int, seed: int) -> tuple[float, ...]:
        ways = [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), transforms.ToTensor()]
        pictures = ImageFolder(root, transforms.Compose([*ways, transforms.Normalize(MEAN, STD)]))
        torch.manual_seed(seed)
        return (rate(islice(DataLoader(pictures, batch_size=BATCH, shuffle=True), count)),)

    return turn


def ours(data: DataSet) -> Turn:
    def turn(size: int, count: int, seed: int) -> tuple[float, ...]:
        source = data.train.at(size, random_crop=True)
        sizes = LoaderSizes(batch_size=BATCH, processes=1, workers=0, pin_memory=False)
        loader, _ = train_loader(source, sizes, ImageOrder(seed, len(source)), accumulate=1, epochs=1)
        read = batches(loader)
        augmentation = Augmentation(flip=True, random_crop=True)
        device = torch.device("cpu")
        transform = ImageTransform(seed, augmentation, 3, size, data.mean, data.std, torch.float32, device)
        whole = rate(transform(batch.images_BCHW, batch.tickets_B) for batch in islice(read, count))
        return rate(islice(read, count)), whole

    return turn


def rate(work: Iterable[object]) -> float:
    """Return the images of a core in a second, each item of the work being a batch."""
    started = time.process_time()
    done = sum(BATCH for _ in work)
    return done / (time.process_time() - started)


def compare(turns: dict[str, Turn], size: int, rounds: int, count: int) -> None:
    for turn in turns.values():
        turn(size, 1, 0)
    rows = [sum((turn(size, count, number) for turn in turns.values()), ()) for number in range(1, rounds + 1)]
    names = ["usual", *(f"{name}, {part}" for name in list(turns)[1:] for part in ("read", "batch"))]
    for name, rates, ratios in zip(names, zip(*rows, strict=True), zip(*map(by_first, rows), strict=True), strict=True):
        against = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        sys.stdout.write(f"{size:>5}  {name:<14}{statistics.median(rates):>9,.0f}  {against}\n")
    sys.stdout.flush()


def by_first(rates: tuple[float, ...]) -> list[float]:
    return [rate / rates[0] for rate in rates]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/CLASS/ and val/CLASS/")
    parser.add_argument("--packed", type=Path, help="what accel_train pack made of it")
    parser.add_argument("--sizes", type=int, nargs="+", default=[176, 224], help="of the crops, pixels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=6, help=f"of {BATCH} images, in each turn")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    turns = {"usual": usual(options.data / "train")}
    for name, folder in {"folder": options.data, "packed": options.packed}.items():
        if folder:
            turns[name] = ours(open_data(str(folder), directory=None, val_fraction=None, seed=0, limit=None))
    sys.stdout.write(f"torch {torch.__version__}, one thread; images/s of a core, medians; ratios to the usual way\n")
    for size in options.sizes:
        compare(turns, size, options.rounds, options.batches)


if __name__ == "__main__":
    main()
