"""Fabricated contents of reports: a run of any number of classes and epochs, its predictions and pictures."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from accel_train.events import EpochByRank, EpochEnd, PhaseTimes, Profiled, Progress, as_record
from accel_train.history.config_file import Setting
from accel_train.history.metrics_file import Metrics
from accel_train.history.run import RunHistory
from accel_train.metrics.predictions import Predictions
from accel_train.report.page import Content
from accel_train.report.pictures import Mistake, Sample, picture
from helpers.run_events import ENDED, epoch_by_rank, epoch_end, started

UPDATES_PER_EPOCH = 22
NAMES = ('<img src=x onerror="alert(1)">', "כלב", "قطة‌ها", "a\nb\u202etxt", "{{ 7 * 7 }}", "日本語", "&amp;")
"""Names of classes that must be shown as they are."""


def class_names(count: int) -> tuple[str, ...]:
    """Return names, the first of them awkward ones."""
    return (*NAMES, *(f"class {number:03d}" for number in range(len(NAMES), count)))[:count]


def metrics(epochs: int, *, finished: bool = True) -> Metrics:
    """Return the metrics of a run that gets better each epoch."""
    updates = range(10, epochs * UPDATES_PER_EPOCH + 1, 10)
    ends: list[EpochEnd] = []
    for epoch in range(1, epochs + 1):
        loss = 2.3 * 0.7**epoch
        better = {
            "train_loss": loss,
            "val_loss": 1.1 * loss,
            "train_accuracy": 1 - loss / 4,
            "val_accuracy": 1 - loss / 3,
        }
        ends.append(replace(epoch_end(epoch), **better))
    return Metrics(
        started=json.loads(json.dumps(as_record(started(epochs=max(1, epochs))))),
        progress=[
            Progress(1 + update // UPDATES_PER_EPOCH, update, 0.05 / update, 2.3 * 0.98**update, 3 / update, "0x1f")
            for update in updates
        ],
        by_rank=[EpochByRank(epoch, 22 * epoch, epoch_by_rank(epoch).ranks) for epoch in range(1, epochs + 1)],
        epochs=ends,
        ends=[replace(ENDED, epochs=epochs, updates=22 * epochs, best_epoch=epochs)] if finished and epochs else [],
        profiles=[
            Profiled(11, 20, tuple(PhaseTimes(*(rank + n + 0.0 for n in range(6))) for rank in (0, 1)), 1, "profile")
        ],
        times=["2026-11-29T22:14:05.123+00:00", "2026-11-29T22:15:07.456+00:00"],
    )


def predictions(classes: int, images: int, *, errors: float = 0.2, seed: int = 0) -> Predictions:
    """Return predictions, a share of them wrong; some classes are mistaken for their neighbour."""
    draw = np.random.default_rng(seed)
    labels_N = draw.integers(0, classes, images)
    wrong_N = draw.random(images) < errors * draw.random(classes)[labels_N] * 2
    near_N = np.where(draw.random(images) < 0.7, (labels_N + 1) % classes, draw.integers(0, classes, images))
    predicted_N = np.where(wrong_N, near_N, labels_N)
    wrong_N = predicted_N != labels_N
    confidence_N = np.where(wrong_N, draw.beta(4, 3, images), draw.beta(12, 1, images)).astype(np.float32)
    ranks_N = np.where(wrong_N, draw.integers(2, min(classes, 12) + 1, images), 1)
    of_label_N = np.where(wrong_N, (1 - confidence_N) / 2, confidence_N).astype(np.float32)
    names = tuple(f"images/{number:05d}.jpg" for number in range(images))
    return Predictions(class_names(classes), names, labels_N, predicted_N, confidence_N, of_label_N, ranks_N)


def content(
    classes: int = 10, images: int = 360, epochs: int = 8, *, side: int = 8, finished: bool = True, errors: float = 0.2
) -> Content:
    """Return the content of a report; pictures are noise with `side` pixels."""
    draw = np.random.default_rng(1)
    found = predictions(classes, images, errors=errors)
    worst = np.flatnonzero(~found.correct_N)[:24]

    def noise() -> np.ndarray:
        return draw.integers(0, 256, (side, side, 3), dtype=np.uint8)

    return Content(
        history=RunHistory(Path("runs/digits_cnn_001"), metrics(epochs, finished=finished), has_weights=finished),
        settings={
            "data": Setting("digits", "flag"),
            "lr": Setting(0.05, "default for cnn"),
            "seed": Setting(0, "default"),
            "exact": Setting(False, "default"),
        },
        predictions=found,
        weights="last",
        mistakes=[
            Mistake(
                picture=picture(noise()),
                name=found.images[row],
                label=found.classes[found.labels_N[row]],
                predicted=found.classes[found.predicted_N[row]],
                confidence=float(found.confidences_N[row]),
                label_probability=float(found.label_probabilities_N[row]),
            )
            for row in worst
        ],
        samples=[Sample(picture(noise()), (found.classes[n % classes],)) for n in range(16)],
    )
