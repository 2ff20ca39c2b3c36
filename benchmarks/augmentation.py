"""Measures what each augmentation costs, beside a bare loop that trains resnet18 without one.

The bare loop trains on one batch in memory. Prints images/s of accel_train and of the loop, alternating, each turn in a
process of its own, and the median of the ratios. With ``--cpu``: the CPU time of augmenting and mixing a batch and of
the loop's update, alternating in one process, so that other load on the machine matters little.

    python -m benchmarks.augmentation --rounds 3
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from torchvision.models import resnet18

from accel_train.bench.measure import Workload, measure
from accel_train.bench.results import Setting
from accel_train.config.options import TrainConfig
from accel_train.config.resolve import resolve
from accel_train.data.transforms import ImageTransform
from accel_train.training.mixing import Mixing
from accel_train.training.torch_settings import keep_freed_memory

ROWS: dict[str, dict[str, str]] = {
    "none": {"augment": "none"},
    "standard": {"augment": "standard"},
    "colour jitter": {"augment": "standard", "color_jitter": "0.4,0.4,0.4,0.1"},
    "RandAugment": {"augment": "standard", "rand_augment": "2,9"},
    "strong": {"augment": "strong"},
    "mixup": {"augment": "standard", "mixup": "0.2"},
    "CutMix": {"augment": "standard", "cutmix": "1"},
}
"""By name: options of accel_train train."""
CLASSES = 10


def against_bare(rows: list[str], batch_size: int, size: int, rounds: int, updates: int) -> None:
    setting = Setting("cpu", batch_size, "fp32", compile=False, processes=1, updates=updates)
    data = f"synthetic:{setting.images},3,{size},{size},{CLASSES}"
    sys.stdout.write("augmentation        bare      ours  ours/bare\n")
    for name in rows:
        level, *others = ROWS[name].items()
        options = [word for option, value in others for word in ("--" + option.replace("_", "-"), value)]
        row = measure(Workload(data, "resnet18", level[1], tuple(options)), setting, against_bare=True, rounds=rounds)
        if row.measurement is None:
            sys.exit(f"{name}: {row.failure}")
        rates = f"{row.bare_images_per_second:>8,.1f}  {row.measurement.images_per_second:>8,.1f}"
        sys.stdout.write(f"{name:<14}  {rates}  {row.ratio_to_bare:.2f}\n")
        sys.stdout.flush()


def by_cpu_time(rows: list[str], batch_size: int, size: int, rounds: int) -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    images_BCHW = torch.randint(0, 256, (batch_size, 3, size, size), dtype=torch.uint8)
    transforms, update = {name: transform(name, size) for name in rows}, bare_update(batch_size)
    mixings = {name: mixing(name, size) for name in rows}
    times: dict[str, list[float]] = {name: [] for name in ("update", *transforms)}
    normalised = transform("none", size)(images_BCHW)
    for number in range(-2, rounds):  # two to warm up
        sample_indices = torch.arange(batch_size) + batch_size * number
        turns: dict[str, Callable[[], object]] = {"update": partial(update, normalised)}
        for name in rows:
            turns[name] = partial(augmented, images_BCHW, sample_indices, transforms[name], mixings[name])
        for name, turn in turns.items():
            seconds = cpu_seconds(turn)
            if number >= 0:
                times[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    sys.stdout.write("                CPU ms  update / (update + augmentation)\n")
    for name, seconds in medians.items():
        ratio = "" if name == "update" else f"{medians['update'] / (medians['update'] + seconds):.2f}"
        sys.stdout.write(f"{name:<14}{1000 * seconds:>8.2f}  {ratio}\n")


def transform(name: str, size: int) -> ImageTransform:
    config, _ = resolve(TrainConfig(**ROWS[name]), {}, "synthetic", 1000, "fp32")  # type: ignore[arg-type]
    middle = (0.5,) * 3
    return ImageTransform(
        seed=0,
        augmentation=config.augmentation,
        channels=3,
        size=size,
        mean=middle,
        std=middle,
        dtype=torch.float32,
        device=torch.device("cpu"),
    )


def mixing(name: str, size: int) -> Mixing:
    alphas = {option: float(value) for option, value in ROWS[name].items() if option in ("mixup", "cutmix")}
    return Mixing(seed=0, **alphas, size=size)


def augmented(images_BCHW: Tensor, sample_indices: Tensor, transform: ImageTransform, mixing: Mixing) -> Tensor:
    images_BCHW = transform(images_BCHW, sample_indices)
    if not mixing:
        return images_BCHW
    return mixing.draw(int(sample_indices[0]), 0, len(images_BCHW)).images(images_BCHW)


def bare_update(batch_size: int) -> Callable[[Tensor], None]:
    model = resnet18(num_classes=CLASSES).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    labels_B = torch.arange(batch_size) % CLASSES

    def update(images_BCHW: Tensor) -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(images_BCHW), labels_B).backward()
        optimizer.step()

    return update


def cpu_seconds(turn: Callable[[], object]) -> float:
    started = time.process_time()
    turn()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20, help="of a turn against the bare loop")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--size", type=int, default=64, help="pixels")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--cpu", action="store_true", help="CPU time of the augmentation and of an update")
    options = parser.parse_args()
    sys.stdout.write(f"torch {torch.__version__}; medians\n")
    if options.cpu:
        by_cpu_time(options.rows, options.batch_size, options.size, options.rounds)
    else:
        against_bare(options.rows, options.batch_size, options.size, options.rounds, options.updates)


if __name__ == "__main__":
    main()
