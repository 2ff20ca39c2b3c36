"""Measures the fraction of training time that a fast model waits for pictures from one loader worker.

The model is a strided convolution and N blocks. N is chosen so that the model alone trains at a given rate of images
per CPU second, in one thread, on one batch in memory that is converted to float and normalised for each update. Then
`accel_train train` trains it on a folder, and on the same folder packed, with one thread and one worker, which needs a
core of its own. Prints the figures that each run reports.

    python benchmarks/data_wait.py --data DIR --packed DIR

Shape suffixes: B images, C channels, H height, W width.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from accel_train.config.defaults import Augmentation
from accel_train.data.transforms import ImageTransform
from accel_train.training.optimizers import build_optimizer
from accel_train.training.torch_settings import keep_freed_memory

BATCH, WIDTH = 64, 16
_BLOCKS = "DATA_WAIT_BLOCKS"
"""Passes the number of blocks to the training process."""


def tiny(classes: int, channels: int, blocks: int | None = None) -> nn.Module:
    """Return the model; accel_train calls this function too."""
    count = int(os.environ[_BLOCKS]) if blocks is None else blocks
    body = [layer for _ in range(count) for layer in (nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU())]
    stem = nn.Conv2d(channels, WIDTH, kernel_size=8, stride=8)
    return nn.Sequential(stem, nn.ReLU(), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(WIDTH, classes))


def alone(blocks: int, size: int, updates: int) -> float:
    """Return the images per CPU second of a bare loop over one batch as a source reads it."""
    torch.manual_seed(0)
    module = tiny(10, 3, blocks).to(memory_format=torch.channels_last).train()
    optimizer = build_optimizer("sgd", module, weight_decay=5e-4, betas=(0.9, 0.999), eps=1e-8)
    device, middle = torch.device("cpu"), (0.5, 0.5, 0.5)
    transform = ImageTransform(0, Augmentation(flip=0.5), 3, size, middle, middle, torch.float32, device)
    images_BCHW = torch.randint(0, 256, (BATCH, 3, size, size), dtype=torch.uint8)
    images_BCHW = images_BCHW.to(memory_format=torch.channels_last)
    sample_indices_B, labels_B = torch.arange(BATCH), torch.arange(BATCH) % 10
    for update in range(updates + 1):
        if update == 1:  # the first includes one-time costs
            started = time.process_time()
        functional.cross_entropy(module(transform(images_BCHW, sample_indices_B)), labels_B).backward()
        optimizer.step()
        optimizer.zero_grad()
    return updates * BATCH / (time.process_time() - started)


def fitting_blocks(rate: float, size: int, updates: int) -> int:
    """Return the number of blocks, all of equal cost, at which the model trains at a rate.

    Raises:
        SystemExit: the model is slower even without blocks.
    """
    few, many = 4, 24
    fast, slow = (1 / alone(blocks, size, updates) for blocks in (few, many))
    per_block = (slow - fast) / (many - few)
    found = round(few + (1 / rate - fast) / per_block)
    if found < 0:
        possible = 1 / (fast - few * per_block)
        raise SystemExit(f"error: even without blocks the model makes {possible:,.0f} images per CPU s: lower --rate")
    return found


def train(data: Path, blocks: int, size: int, epochs: int) -> dict[str, Any]:
    """Train in a subprocess; return the last record of the run."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(sys.executable, "-m", "accel_train", "train", "--no-report"),
            *("--data", str(data.resolve()), "--model", "data_wait:tiny"),
            *("--image-size", str(size), "--batch-size", str(BATCH), "--epochs", str(epochs), "--lr", "0.001"),
            *("--device", "cpu", "--threads", "1", "--workers", "1", "--json", "--quiet", "--output", f"{folder}/run"),
        ]
        path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path, _BLOCKS: str(blocks)}
        ended = subprocess.run(words, stdout=subprocess.PIPE, text=True, env=environment, check=True)
    record: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with train/CLASS/ and val/CLASS/")
    parser.add_argument("--packed", type=Path, help="the same folder, packed by accel_train pack")
    parser.add_argument("--rate", type=float, default=800, help="images per CPU second at which the model trains alone")
    parser.add_argument("--size", type=int, default=176, help="crop size, pixels")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--updates", type=int, default=30, help="number to measure the model's rate on")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    blocks = fitting_blocks(options.rate, options.size, options.updates)
    needed = alone(blocks, options.size, options.updates)
    sys.stdout.write(f"torch {torch.__version__}; {blocks} blocks, alone {needed:,.0f} images per CPU s\n\n")
    sys.stdout.write("| | data wait | images/s |\n|---|---|---|\n")
    for name, data in {"folder": options.data, "packed": options.packed}.items():
        if data:
            ended = train(data, blocks, options.size, options.epochs)
            sys.stdout.write(f"| {name} | {ended['data_wait_share']:.1%} | {ended['images_per_second']:,.0f} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
