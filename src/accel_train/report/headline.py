"""What a run has reached, in a sentence and a few figures."""

from dataclasses import dataclass

import numpy as np

from accel_train.events import EpochEnd
from accel_train.history.run import RunHistory
from accel_train.loggers.text import duration, loss, quantity, speed
from accel_train.metrics.calibration import Reliability
from accel_train.metrics.classification import wilson
from accel_train.metrics.predictions import Predictions
from accel_train.report.started import Started

_MANY_IMAGES = 2_000
"""From which on an accuracy has a second decimal."""
_MANY_CLASSES = 10
"""With more of them, top-5 accuracy is of interest too."""


@dataclass(frozen=True)
class Tile:
    """A figure, what it is of, and a 95 % interval if it is a share of images."""

    label: str
    value: str
    detail: str
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Status:
    """How far a run has come."""

    text: str
    is_finished: bool


def percent(share: float, images: int = 0) -> str:
    """Return a share of images as a percentage, with as many decimals as they give reason for."""
    return f"{100 * share:.{2 if images >= _MANY_IMAGES else 1}f}\u00a0%"


def status(history: RunHistory, started: Started | None) -> Status:
    """Return whether the run has finished, and why it ended."""
    if end := history.end:
        return Status(end.reason, True)
    done = len(history.epochs)
    of = f" of {started.plan.epochs:,}" if started else ""
    return Status(f"not finished: {done:,}{of} epochs trained" if done else "not finished: no epoch trained yet", False)


def tiles(
    history: RunHistory, started: Started | None, predictions: Predictions | None, found: Reliability | None
) -> list[Tile]:
    """Return the figures of the run, the most important first."""
    tiles = _predicted(predictions, found) if predictions and found else _validated(history.epochs)
    last, end = history.epochs[-1:], history.end
    if last:
        tiles.append(Tile("Validation loss", loss(last[0].val_loss), f"training {loss(last[0].train_loss)}"))
    if end:
        trained = f"{quantity(end.epochs, 'epoch')}, {quantity(end.updates, 'update')}"
        tiles.append(Tile("Time", duration(end.seconds), trained))
    if end and started:
        hardware = started.hardware
        devices = f"{hardware.world_size} × {hardware.device}" if hardware.world_size > 1 else hardware.device
        tiles.append(Tile("Images per second", speed(end.images_per_second), devices))
    if started:
        tiles.append(Tile("Model", started.model.model, quantity(started.model.parameters, "parameter")))
    return tiles


def _predicted(predictions: Predictions, found: Reliability) -> list[Tile]:
    images, correct_N = len(predictions), predictions.correct_N
    correct, in_top5 = int(correct_N.sum()), int((predictions.label_ranks_N <= 5).sum())
    counts = f"{correct:,} of {quantity(images, 'image')}"
    tiles = [Tile("Validation accuracy", percent(correct / max(1, images), images), counts, wilson(correct, images))]
    if len(predictions.classes) > _MANY_CLASSES:
        detail = f"label among the five most probable: {in_top5:,}"
        tiles.append(Tile("Top-5 accuracy", percent(in_top5 / max(1, images), images), detail, wilson(in_top5, images)))
    images_K, correct_K = (
        np.bincount(labels, minlength=len(predictions.classes))
        for labels in (predictions.labels_N, predictions.labels_N[correct_N])
    )
    if len(set(images_K.tolist())) > 1:
        balanced = float(np.mean(correct_K[images_K > 0] / images_K[images_K > 0]))
        tiles.append(Tile("Balanced accuracy", percent(balanced, images), "mean of the classes"))
    confidence = float(np.mean(predictions.confidences_N)) if images else 0.0
    detail = f"mean confidence {percent(confidence, images)}"
    return [*tiles, Tile("Calibration error", percent(found.ece, images), detail)]


def _validated(epochs: list[EpochEnd]) -> list[Tile]:
    if not epochs:
        return []
    last = epochs[-1]
    return [Tile("Validation accuracy", percent(last.selection_accuracy), f"after epoch {last.epoch}")]
