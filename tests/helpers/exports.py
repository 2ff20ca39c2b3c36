"""Makes the models of runs in memory, and photographs."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images
from torch import nn

from accel_train.config.options import TrainConfig
from accel_train.config.resolve import resolve
from accel_train.models.build import build_model
from accel_train.run.inference import RunModel
from helpers.descriptions import description


def run_model(name: str = "mlp", size: int = 16, *, data: str = "photos", grey: bool = False, **given: Any) -> RunModel:
    """Return the model of a run of `data` with random weights other than zero."""
    channels = 1 if grey else 3
    torch.manual_seed(0)
    built = build_model(name, classes=2, channels=channels, data_size=size, image_size=size)
    for parameter in built.module.parameters():
        if not parameter.any():
            nn.init.normal_(parameter, std=0.02)
    values = {
        **{"model": built.name, "channels": built.channels, "data_channels": channels},
        **{"data_size": size, "image_size": size, "adapted_to": built.adapted_to},
        **{"interpolation": "bilinear", "mean": (0.3, 0.4, 0.5)[:channels], "std": (0.2, 0.3, 0.25)[:channels]},
    }
    options = {option: given.pop(option) for option in ("fit", "eval_crop") if option in given}
    config = resolve(TrainConfig(data=data, **options), {}, "folder", 1000, "fp32")[0]
    return RunModel(Path("run"), config, description(**values | given), "last", (), built.module.eval())


@cache
def photographs() -> tuple[NDArray[np.uint8], ...]:
    """Return the pixels_HWC of two photographs, 427 × 640 pixels."""
    return tuple(np.array(image) for image in load_sample_images().images)


def odd_photographs() -> list[NDArray[np.uint8]]:
    """Return parts of the photographs, of odd sizes and shapes."""
    first, second = photographs()
    return [first, second[13:314, 50:267], first[:51, :37], second[200:207, 100:305], first[100:116, 300:316]]
