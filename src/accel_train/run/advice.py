"""What to try after a run whose accuracy is poor: at most three lines, each with its figure and an option.

The loop's notes (:mod:`accel_train.run.learning_notes`) warn while a run trains; this looks back at the whole run.
"""

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan
from accel_train.data.contents import Contents
from accel_train.data.sources.base import Source
from accel_train.data.sources.synthetic import is_synthetic
from accel_train.errors import UserError
from accel_train.events import EpochEnd
from accel_train.history.files import PREDICTIONS
from accel_train.loggers.text import accuracy, quantity, quoted, validation
from accel_train.metrics.predictions import Predictions, read_predictions
from accel_train.run.build import Run
from accel_train.run.learning_notes import LearningNotes, at_chance
from accel_train.run.remedies import MIN_UPDATES, against_memorizing, lowered

MOST_LINES = 3
_POOR = 0.9
"""Validation accuracy from which on a run needs no advice."""
_LEARNED = 0.2
"""Training accuracy above chance that only a model has which has memorized images."""
_ENLARGED = 4
"""Times that images are enlarged, from which on most of the computation is wasted."""
_FEW_IMAGES = 50
"""Training images of a class, below which a model from random weights rarely generalizes."""
_GAP = 0.15
"""Training accuracy minus validation accuracy."""
_FALL, _RISE = 0.02, 0.01
"""Fall of the validation loss in the last epoch, as a fraction of it, and rise of the accuracy."""
_ENOUGH_OF_CLASS = 5
"""Validation images of a class, from which on a useful model predicts that class at least once."""


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    config: ResolvedConfig
    plan: Plan
    contents: Contents
    before: EpochEnd | None
    """The epoch before the last; None if there is none."""
    last: EpochEnd
    stored_side: int | None
    """Pixels of the shorter side of a typical stored image; None if it cannot be read any more."""
    model_side: int
    """Pixels of the side of the model's input."""
    predictions: Predictions | None
    """Those for the validation images; None if they were not computed."""
    noted: bool = False
    """Whether the run was lately noted to memorize images or to be at chance."""
    model_sides: range = range(1, sys.maxsize)
    """Those that the model accepts."""

    @property
    def chance(self) -> float:
        """The share of the largest class of the validation images."""
        val = self.contents.splits["val"]
        return max(val.counts) / val.images if val.counts else 1 / len(self.contents.classes)

    @property
    def at_chance(self) -> str | None:
        """The note of a validation accuracy that is chance; None if it is better."""
        return at_chance(self.config, self.plan, self.contents, self.before, self.last)

    @property
    def has_memorized(self) -> bool:
        """Whether it has learned the training images, by heart if validation is at chance."""
        trained = self.last.train_accuracy
        return trained is not None and trained > self.chance + _LEARNED

    @property
    def images_of_class(self) -> float:
        """Mean number of training images of a class."""
        train = self.contents.splits["train"]
        images = train.images if self.config.limit is None else min(self.config.limit, train.images)
        return images / len(self.contents.classes)


def advice_after(run: Run, notes: LearningNotes) -> tuple[str, ...]:
    """Return the advice for a run that is complete; on other ranks than 0 none."""
    if not run.processes.is_main or notes.last is None:
        return ()
    return advice(
        Outcome(
            run.config,
            run.plan,
            run.contents,
            notes.before,
            notes.last,
            _stored_side(run.data.train),
            run.built.image_size,
            _predictions(run),
            notes.noted_lately,
            run.built.sizes,
        )
    )


def _stored_side(source: Source) -> int | None:
    try:
        return min(source.shape[1:])
    except (UserError, OSError):
        return None


def _predictions(run: Run) -> Predictions | None:
    try:
        return read_predictions(run.resume_point.folder / PREDICTIONS, run.contents.classes)
    except UserError:  # there are none
        return None


def advice(outcome: Outcome) -> tuple[str, ...]:
    """Return what to try, the most likely cause first; nothing if the run went well."""
    if is_synthetic(outcome.config.data) or outcome.last.selection_accuracy >= _POOR:
        return ()
    return tuple(line for rule in _RULES for line in rule(outcome))[:MOST_LINES]


def shuffled_labels(outcome: Outcome) -> Iterator[str]:
    """Compare what was learned of many training images with validation at chance."""
    if outcome.at_chance and outcome.has_memorized and outcome.images_of_class >= _FEW_IMAGES:
        trained = accuracy(outcome.last.train_accuracy)
        found = f"{validation(outcome.config.ema)} {accuracy(outcome.last.selection_accuracy)}"
        figures = f"training accuracy {trained}, but {found}, which is chance ({accuracy(outcome.chance)})"
        look = f"accel_train preview {_data_options(outcome.config)} --output preview.png"
        yield f"{figures}: the labels look shuffled; compare them with the images: {look}"


def _data_options(config: ResolvedConfig) -> str:
    names = ("data", "labels", "label_column", "data_dir")
    given = {name: value for name in names if (value := getattr(config, name)) is not None}
    return " ".join(f"--{name.replace('_', '-')} {quoted(value)}" for name, value in given.items())


def high_learning_rate(outcome: Outcome) -> Iterator[str]:
    """Compare the peak learning rate with the limit of the defaults."""
    config, plan = outcome.config, outcome.plan
    highest, limit = plan.learning_rate.highest, config.usual_rate.max_lr
    if highest > limit:
        figure = f"the peak learning rate was {highest:.4g} for {plan.global_batch:,} images per update"
        yield f"{figure}, above {limit:g}, the limit for {config.model}: try {lowered(config, plan, limit)}"


def nothing_learned(outcome: Outcome) -> Iterator[str]:
    """Repeat the note of a run at chance, if that is long ago and the other rules do not explain it."""
    is_explained = outcome.has_memorized or any(high_learning_rate(outcome))
    if outcome.at_chance and not outcome.noted and not is_explained:
        yield outcome.at_chance


def enlarged_images(outcome: Outcome) -> Iterator[str]:
    """Compare the size of stored images with that of the model's input; given weights may need images that large."""
    stored, side, sides = outcome.stored_side, outcome.model_side, outcome.model_sides
    if stored is not None and side >= _ENLARGED * stored and not outcome.config.starts_from_weights:
        smaller = next(iter(sides[bisect_left(sides, max(32, 1 << (stored - 1).bit_length())) :]), side)
        if smaller < side:
            yield (
                f"images of {stored} × {stored} pixels are enlarged to {side} × {side}, which adds no detail: "
                f"try --image-size {smaller} and more epochs in the same time"
            )


def few_images(outcome: Outcome) -> Iterator[str]:
    """Count the training images of a class, if the weights were random."""
    images = outcome.images_of_class
    if not outcome.config.starts_from_weights and images < _FEW_IMAGES:
        count = f"{images:.2g}"
        counted = "1 training image per class is" if count == "1" else f"{count} training images per class are"
        figure = f"{counted} few for a model from random weights"
        yield f"{figure}: try --model resnet18 --weights DEFAULT, or more images"


def missing_classes(outcome: Outcome) -> Iterator[str]:
    """Find classes that are never predicted."""
    if outcome.predictions is None or outcome.at_chance:
        return
    classes = outcome.predictions.classes
    images, predicted = (
        np.bincount(ids, minlength=len(classes))
        for ids in (outcome.predictions.labels_N, outcome.predictions.predicted_N)
    )
    missing = np.flatnonzero((images >= _ENOUGH_OF_CLASS) & (predicted == 0))
    if not len(missing):
        return
    largest = missing[images[missing].argmax()]
    never = f"{len(missing):,} of {len(classes):,} classes {'is' if len(missing) == 1 else 'are'} never predicted"
    example = f"{classes[largest]} ({quantity(int(images[largest]), 'validation image')})"
    balance = "--balance weights or " * (outcome.config.balance == "none" and _is_rare(outcome, int(largest)))
    yield f"{never}, {'such as' if len(missing) > 1 else 'namely'} {example}: try {balance}{_longer(outcome.plan)}"


def _is_rare(outcome: Outcome, label: int) -> bool:
    """Return whether a class has fewer training images than the mean class."""
    counts = outcome.contents.splits["train"].counts
    return counts is not None and counts[label] * len(counts) < sum(counts)


def overfitting(outcome: Outcome) -> Iterator[str]:
    """Compare training and validation accuracy."""
    trained, found, config = outcome.last.train_accuracy, outcome.last.selection_accuracy, outcome.config
    if trained is not None and trained - found > _GAP and not outcome.at_chance and not outcome.noted:
        figures = f"training accuracy {accuracy(trained)} is far above {validation(config.ema)} {accuracy(found)}"
        yield f"{figures}: try {against_memorizing(config)}"


def still_falling(outcome: Outcome) -> Iterator[str]:
    """Compare the validation of the last two epochs, unless the run failed for another reason."""
    before, last = outcome.before, outcome.last
    if before is None or outcome.at_chance or any(high_learning_rate(outcome)):
        return
    was, loss = _loss(before), _loss(last)
    rise = last.selection_accuracy - before.selection_accuracy
    if was - loss > _FALL * was or (loss < was and rise > _RISE):
        fell = f"the {validation(outcome.config.ema)} loss still fell, from {was:.3f} to {loss:.3f}"
        yield f"{fell} in the last epoch: try {_longer(outcome.plan)}"


def _longer(plan: Plan) -> str:
    """Return the option of a run of twice the epochs, or of as many as make enough updates."""
    return f"--epochs {max(2 * plan.epochs, math.ceil(MIN_UPDATES / plan.updates_per_epoch))}"


def _loss(epoch: EpochEnd) -> float:
    return epoch.val_loss if epoch.ema_val_loss is None else epoch.ema_val_loss


_RULES: tuple[Callable[[Outcome], Iterator[str]], ...] = (
    shuffled_labels,
    high_learning_rate,
    nothing_learned,
    enlarged_images,
    few_images,
    missing_classes,
    overfitting,
    still_falling,
)
"""From the cause that spoils a run altogether to the one that costs a few percent."""
