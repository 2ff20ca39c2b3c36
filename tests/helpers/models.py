"""Builds and runs models."""

import torch
from accelerate import init_empty_weights
from torch import Tensor

from accel_train.models.build import BuiltModel, build_model


def build(
    name: str, *, classes: int = 10, channels: int = 1, data_size: int = 28, image_size: int | None = None
) -> BuiltModel:
    return build_model(name, classes=classes, channels=channels, data_size=data_size, image_size=image_size)


def build_without_memory(name: str, **images: int) -> BuiltModel:
    """Build a model on the meta device; its buffers begin on the CPU, as some models compute with them when built."""
    with init_empty_weights(include_buffers=False):
        built = build(name, **images)
    built.module.to("meta")
    return built


def logits_of_zeros(built: BuiltModel, device: str = "cpu") -> Tensor:
    """Return the logits of two images of zeros."""
    images_BCHW = torch.zeros(2, built.channels, built.image_size, built.image_size, device=device)
    with torch.no_grad():
        output = built.module(images_BCHW)
    logits_BK: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits_BK
