"""The images of a run's first updates as its model is given them, without training."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.config.options import TrainConfig
from accel_train.config.strategies import STRATEGY_OPTIONS
from accel_train.data.sources.base import DataSet
from accel_train.run.build import Run, build_run
from accel_train.run.contact_sheet import Captioned
from accel_train.run.images import view_of
from accel_train.run.resume_point import ResumePoint, fill_from_run
from accel_train.training.loss import Targets
from accel_train.training.timing import Timing

_MOST_IMAGES = 64
"""Shown if no number is given."""


@dataclass(frozen=True)
class Preview:
    """What to show of a run."""

    run: Run
    images: Sequence[Captioned]
    updates: int
    """That the images are of, the last perhaps in part."""


def run_of(asked: TrainConfig, origins: dict[str, str]) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config of the run to show, with the values of the run that --resume names, and their origins."""
    values = {name: getattr(asked, name) for name in TrainConfig.model_fields} | {"output": None}
    named = TrainConfig.model_fields.keys() - {"output"}
    own_origins = {name: origin for name, origin in origins.items() if name in named}
    return fill_from_run(TrainConfig.model_construct(**values), own_origins)


def preview(asked: TrainConfig, origins: dict[str, str], images: int | None) -> Preview:
    """Build the run that a config describes on this process, whatever it asks for, and return its first images.

    The micro-batches of all processes are read one after another; they are the same on any number of processes.

    Raises:
        UserError: the run could not start.
    """
    run = build_run(_on_one_process(asked), origins, find=nowhere)
    count = images or min(_MOST_IMAGES, run.plan.global_batch)
    shown = list(islice(_captioned(run), count))
    return Preview(run, shown, -(-len(shown) // run.plan.global_batch))


def _on_one_process(asked: TrainConfig) -> TrainConfig:
    """Return the config of the same updates on one process: it accumulates what others would compute."""
    replicas = (asked.processes or 1) // (asked.pipeline_stages or 1)
    accumulate = None if asked.global_batch_size else (asked.accumulate or 1) * replicas
    changes: dict[str, Any] = {
        **dict.fromkeys(STRATEGY_OPTIONS),
        **{"strategy": "auto", "processes": None, "accumulate": accumulate, "resume": "never"},
        **{"compile": False, "profile": False, "watch_every": 0},
    }
    return asked.model_copy(update=changes)


def nowhere(output: Path | None, resume: str, name: str, same: Any) -> ResumePoint:
    """Return the resume point of a new run, which writes nothing."""
    return ResumePoint(Path(name))


def _captioned(run: Run) -> Iterator[Captioned]:
    """Yield images from the first update on, each with its label, or both labels if it is mixed."""
    is_float = run.data.train.read([0], None, view_of(run.config, 1))[0].is_floating_point()
    for batch in run.training.batches.micro_batches(0, Timing()):
        pixels_BHWC = model_pixels(batch.images_BCHW, run.data, is_float=is_float)
        yield from map(Captioned, pixels_BHWC, captions(batch.targets, run.contents.classes))


def captions(targets: Targets, classes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the lines below each image: its class, or both classes with their shares."""
    shares = (1 - targets.others_share, targets.others_share)
    found = [labels_B.tolist() for labels_B in (targets.labels_B, targets.others_B) if labels_B is not None]
    for labels in zip(*found, strict=True):
        names = [classes[label] for label in labels]
        mixed = zip(shares, names, strict=False)
        yield (names[0],) if len(names) == 1 else tuple(f"{100 * share:.0f} % {name}" for share, name in mixed)


def model_pixels(images_BCHW: Tensor, data: DataSet, *, is_float: bool) -> NDArray[np.uint8]:
    """Return the model's input as it was before it was normalised; floats of a user's between black and white."""
    images_BCHW = images_BCHW.float().cpu()
    if is_float:
        return stretched_pixels(images_BCHW)
    mean_C11, std_C11 = (torch.tensor(values).view(-1, 1, 1) for values in (data.mean, data.std))
    return rgb_pixels(images_BCHW * std_C11 + mean_C11)


def stretched_pixels(images_BCHW: Tensor) -> NDArray[np.uint8]:
    """Return images of any numbers as 8-bit RGB, shape (B, H, W, C); the lowest number is black, the highest white."""
    low, high = images_BCHW.aminmax()
    return rgb_pixels((images_BCHW - low) / (high - low).clamp(min=1e-12))


def rgb_pixels(images_BCHW: Tensor) -> NDArray[np.uint8]:
    """Return images with fractions of full white as 8-bit RGB, shape (B, H, W, C)."""
    channels = (0, 1, 2) if images_BCHW.shape[1] >= 3 else (0, 0, 0)
    pixels_BCHW = (images_BCHW[:, list(channels)] * 255).round().clamp(0, 255).byte()
    pixels: NDArray[np.uint8] = pixels_BCHW.permute(0, 2, 3, 1).numpy()
    return pixels
