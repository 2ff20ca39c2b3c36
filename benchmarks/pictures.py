"""Measures how many pictures per second one core reads: torchvision and accel_train, alternating in one process.

torchvision is ImageFolder with Pillow, RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize in a DataLoader;
with ``--augment strong`` also TrivialAugmentWide, interpolated linearly, and RandomErasing.
accel_train is its own loader up to the uint8 batch ("read"), and up to the augmented and normalised float batch
("batch"), from the folder and, if given, from the same folder packed. One thread, no workers; times are CPU seconds, so
that other load on the machine matters little. Prints medians, and medians and ranges of the ratios to torchvision in
the same round.

    python benchmarks/pictures.py --data DIR --packed DIR
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from accel_train.config.defaults import DATA_DEFAULTS, Augmentation
from accel_train.data.loader import LoaderSizes, batches, train_loader
from accel_train.data.open import open_data
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import DataSet, View
from accel_train.data.transforms import ImageTransform
from accel_train.training.torch_settings import keep_freed_memory

BATCH = 64
BILINEAR = transforms.InterpolationMode.BILINEAR
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
Turn = Callable[[int, int, int], tuple[float, ...]]
"""Takes the crop size, the number of batches and a seed; returns images/s of one core for each figure measured."""


def torchvision(root: Path, augmentation: Augmentation) -> Turn:
    def turn(size: int, count: int, seed: int) -> tuple[float, ...]:
        steps = [
            *(transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip()),
            *[transforms.TrivialAugmentWide(interpolation=BILINEAR)] * augmentation.trivial_augment,
            *(transforms.ToTensor(), transforms.Normalize(MEAN, STD)),
            *[transforms.RandomErasing(augmentation.random_erasing)] * bool(augmentation.random_erasing),
        ]
        pictures = ImageFolder(root, transforms.Compose(steps))
        torch.manual_seed(seed)
        return (rate(islice(DataLoader(pictures, batch_size=BATCH, shuffle=True), count)),)

    return turn


def ours(data: DataSet, augmentation: Augmentation) -> Turn:
    def turn(size: int, count: int, seed: int) -> tuple[float, ...]:
        sizes = LoaderSizes(batch_size=BATCH, replicas=1, workers=0, pin_memory=False)
        order, view = ImageOrder(seed, len(data.train)), View(size, random_crop=True)
        loader, _ = train_loader(data.train, view, sizes, order, blocks=[range(1)], epochs=1)
        read = batches(loader)
        device, on_device = torch.device("cpu"), replace(augmentation, random_crop=False)  # the loader has cropped
        transform = ImageTransform(seed, on_device, 3, size, data.mean, data.std, torch.float32, device)
        whole = rate(transform(batch.images_BCHW, batch.sample_indices_B) for batch in islice(read, count))
        return rate(islice(read, count)), whole

    return turn


def rate(work: Iterable[object]) -> float:
    """Return images per CPU second; each item of the work is a batch."""
    started = time.process_time()
    done = sum(BATCH for _ in work)
    return done / (time.process_time() - started)


def compare(turns: dict[str, Turn], size: int, rounds: int, count: int) -> None:
    for turn in turns.values():
        turn(size, 1, 0)
    rows = [sum((turn(size, count, number) for turn in turns.values()), ()) for number in range(1, rounds + 1)]
    names = ["torchvision", *(f"{name}, {part}" for name in list(turns)[1:] for part in ("read", "batch"))]
    for name, rates, ratios in zip(names, zip(*rows, strict=True), zip(*map(by_first, rows), strict=True), strict=True):
        against = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        sys.stdout.write(f"{size:>5}  {name:<14}{statistics.median(rates):>9,.0f}  {against}\n")
    sys.stdout.flush()


def by_first(rates: tuple[float, ...]) -> list[float]:
    return [rate / rates[0] for rate in rates]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/CLASS/ and val/CLASS/")
    parser.add_argument("--packed", type=Path, help="the same folder, packed by accel_train pack")
    parser.add_argument("--augment", choices=["standard", "strong"], default="standard")
    parser.add_argument("--sizes", type=int, nargs="+", default=[176, 224], help="crop sizes, pixels")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=6, help=f"per turn, of {BATCH} images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    augmentation = DATA_DEFAULTS["folder"].augmentation(options.augment)
    turns = {"torchvision": torchvision(options.data / "train", augmentation)}
    for name, folder in {"folder": options.data, "packed": options.packed}.items():
        if folder:
            data = open_data(str(folder), directory=None, val_fraction=None, seed=0, limit=None)
            turns[name] = ours(data, augmentation)
    sys.stdout.write(f"torch {torch.__version__}, one thread; median images/s of one core; ratio to torchvision\n")
    for size in options.sizes:
        compare(turns, size, options.rounds, options.batches)


if __name__ == "__main__":
    main()
