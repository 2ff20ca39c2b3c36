"""Notes that a run learns nothing, each with its figure and the options to try."""

import math
from functools import partial

from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import COLD_START, Plan
from accel_train.data.contents import Contents, SplitContents
from accel_train.data.sources.synthetic import is_synthetic
from accel_train.events import EpochEnd
from accel_train.loggers.text import accuracy, quantity, validation
from accel_train.run.remedies import (
    MIN_UPDATES,
    against_chance,
    against_memorizing,
    limit_batch,
    lowered,
    more_updates,
    more_updates_above_limit,
    round_down,
    smaller_batch,
)

_FIRST_EPOCHS = 3
"""Epochs before a run is expected to be better than chance; BatchNorm's running statistics take a while."""
_FIRST_SHARE = 0.1  # of the epochs, if those have few updates
_STANDARD_ERRORS = 2
_LATELY = 10  # epochs
_FAR_ABOVE_NOISE = 5
"""Times the upper limit of the noise scale: then at least five sixths of the images of an update are wasted."""
_LATER_SHARE = 0.25  # of the epochs
_MEMORIZED, _GAP = 0.95, 0.15
"""Training accuracy, and how far validation is below it, in two successive epochs."""


class LearningNotes:
    """Watches the epochs of a run; each note is given once. All ranks see the same epochs, and note the same."""

    def __init__(self, config: ResolvedConfig, plan: Plan, contents: Contents, last: EpochEnd | None) -> None:
        """`last` is the last epoch of a run that is resumed."""
        self.last = last
        self.before: EpochEnd | None = None
        """The epoch before the last one."""
        self._noted_after: int | None = None
        self._rules = [
            partial(memorized, config),
            partial(at_chance, config, plan, contents),
            partial(far_above_noise, config, plan),
        ]
        if is_synthetic(config.data):  # nobody wants to learn those
            self._rules.clear()

    def after(self, epoch: EpochEnd) -> list[str]:
        """Return the notes of an epoch: at most one, so that they do not contradict each other."""
        self.before, self.last = self.last, epoch
        notes = ((rule, rule(self.before, epoch)) for rule in self._rules)
        found = next(((rule, note) for rule, note in notes if note), None)
        if found is None:
            return []
        rule, note = found
        self._rules.remove(rule)
        self._noted_after = epoch.epoch
        return [note]

    @property
    def noted_lately(self) -> bool:
        """Whether a note is still in sight: of one of the last ten epochs."""
        return self.last is not None and self._noted_after is not None and self.last.epoch - self._noted_after < _LATELY


def at_start(config: ResolvedConfig, plan: Plan) -> tuple[str, ...]:
    """Return the notes for the start of a run."""
    return (*about_learning(config, plan), *uneven_shares(plan))


def about_learning(config: ResolvedConfig, plan: Plan) -> tuple[str, ...]:
    """Return the notes for the start of a run that tell that it may learn little."""
    rate = high_rate(config, plan) or falling_warmup(plan)
    return (*rate, *(few_updates(config, plan) or far_above_limit(config, plan)))


def uneven_shares(plan: Plan) -> tuple[str, ...]:
    """Return a note for the start of a run whose replicas of the model do not have equally many micro-batches."""
    micro_batches, replicas = plan.micro_batches, plan.replicas
    if micro_batches % replicas == 0:
        return ()
    idle = 1 - micro_batches / (replicas * plan.accumulate)
    fewer = max(count for count in range(1, replicas) if micro_batches % count == 0)
    sharing = quantity(replicas, *(("process", "processes") if plan.stages == 1 else ("replica", "replicas")))
    return (
        f"{sharing} share {micro_batches} micro-batches per update unequally, and wait {idle:.0%} of the time; "
        f"{fewer} or {micro_batches} would not wait",
    )


def few_updates(config: ResolvedConfig, plan: Plan) -> tuple[str, ...]:
    """Return a note for the start of a run that makes too few updates to learn."""
    if is_synthetic(config.data) or (options := more_updates(config, plan)) is None:
        return ()
    images = plan.updates_per_epoch * plan.global_batch + plan.images_dropped
    if plan.total_updates < MIN_UPDATES:
        figure = f"{quantity(plan.total_updates, 'update')} in {quantity(plan.epochs, 'epoch')}"
    else:
        figure = f"{quantity(plan.updates_per_epoch, 'update')} per epoch"
    return (f"only {figure} (global batch {plan.global_batch:,} of {quantity(images, 'image')}): try {options}",)


def far_above_limit(config: ResolvedConfig, plan: Plan) -> tuple[str, ...]:
    """Return a note for the start of a run whose global batch is far above that at which scaling stops."""
    if (
        is_synthetic(config.data)
        or config.max_lr is None
        or (options := more_updates_above_limit(config, plan)) is None
    ):
        return ()
    return (
        f"scaling stops at {config.max_lr:g}, the rate for {limit_batch(config):,.0f} images per update: "
        f"{plan.global_batch:,} make fewer updates at the same rate, and learn less; try {options}",
    )


def falling_warmup(plan: Plan) -> tuple[str, ...]:
    """Return a note for the start of a run whose warmup starts above the peak, such as one of a smaller batch."""
    rate = plan.learning_rate
    if not rate.warmup_updates or rate.warmup_from <= rate.peak:
        return ()
    figure = f"warmup starts at {rate.warmup_from:.4g}, above the peak of {rate.peak:.4g}, and the rate falls"
    return (f"{figure}: try --warmup-from {round_down(rate.peak * COLD_START):g}",)


def high_rate(config: ResolvedConfig, plan: Plan) -> tuple[str, ...]:
    """Return a note for the start of a run whose learning rate is above the limit of the defaults."""
    highest, limit = plan.learning_rate.highest, config.usual_rate.max_lr
    if highest <= limit:
        return ()
    figure = f"the peak learning rate of {highest:.4g} is above {limit:g}"
    lower = lowered(config, plan, limit)
    return (f"{figure}, the limit for {config.model} with {config.optimizer}: it may diverge; try {lower}",)


def at_chance(
    config: ResolvedConfig, plan: Plan, contents: Contents, before: EpochEnd | None, epoch: EpochEnd
) -> str | None:
    """Return a note for a validation accuracy that always answering the largest class would reach too.

    A model of balanced classes may be below that and yet be better than chance: its balanced accuracy is then.
    """
    val = contents.splits["val"]
    share = max(val.counts) / val.images if val.counts else 1 / len(contents.classes)
    found = max(epoch.val_accuracy, epoch.selection_accuracy)
    margin = chance_margin(share, val.images if config.limit is None else min(config.limit, val.images))
    if not _is_time(plan, epoch) or margin is None or found > share + margin or _is_balanced(epoch, val):
        return None
    after = quantity(epoch.epoch, "epoch")
    chance = f"the largest of {len(contents.classes):,} classes has {accuracy(share)}"
    figure = f"validation accuracy {accuracy(found)} after {after} is chance ({chance})"
    return f"{figure}: try {against_chance(config, plan)}"


def _is_balanced(epoch: EpochEnd, val: SplitContents) -> bool:
    """Return whether balanced accuracy is better than chance: than one of K classes, by more than its own error."""
    found = [each for each in (epoch.val_balanced_accuracy, epoch.ema_val_balanced_accuracy) if each is not None]
    counts = [count for count in val.counts or () if count]
    if not found or not counts:
        return False
    share = 1 / len(counts)
    error = math.sqrt(share * (1 - share) * sum(1 / count for count in counts)) * share
    return max(found) > share + _STANDARD_ERRORS * error


def chance_margin(share: float, images: int) -> float | None:
    """Return how far above chance an accuracy may be by chance; None if the images are too few to tell."""
    margin = _STANDARD_ERRORS * math.sqrt(share * (1 - share) / images)
    return margin if margin < (1 - share) / 2 else None


def memorized(config: ResolvedConfig, before: EpochEnd | None, epoch: EpochEnd) -> str | None:
    """Return a note for a training accuracy far above that of validation, in two successive epochs."""
    if before is None or not all(map(_is_memorized, (before, epoch))):
        return None
    found = f"{validation(config.ema)} {accuracy(epoch.selection_accuracy)}"
    figures = f"training accuracy {accuracy(epoch.train_accuracy)}, {found}"
    after = quantity(epoch.epoch, "epoch")
    return f"{figures} after {after}: the model memorizes the training images; try {against_memorizing(config)}"


def far_above_noise(config: ResolvedConfig, plan: Plan, before: EpochEnd | None, epoch: EpochEnd) -> str | None:
    """Return a note for a global batch far above the gradient noise scale, which grows during a run."""
    value, low, high = epoch.noise_scale, epoch.noise_scale_low, epoch.noise_scale_high
    warmed_up = epoch.update > plan.learning_rate.warmup_updates
    if value is None or high is None or not warmed_up or epoch.epoch < _LATER_SHARE * plan.epochs:
        return None
    smaller = smaller_batch(config, plan, max(high, 1)) if plan.global_batch > _FAR_ABOVE_NOISE * high else None
    if smaller is None:
        return None
    figure = f"{plan.global_batch:,} images per update are far above the gradient noise scale"
    return f"{figure} of {value:,.0f} ({low:,.0f} to {high:,.0f}): fewer would teach as much; try {smaller}"


def _is_time(plan: Plan, epoch: EpochEnd) -> bool:
    """Return whether a run should be better than chance: after three epochs, of few updates a tenth of all epochs."""
    if epoch.epoch == plan.epochs:
        return True
    enough = epoch.update >= MIN_UPDATES or epoch.epoch >= _FIRST_SHARE * plan.epochs
    return epoch.epoch >= _FIRST_EPOCHS and enough and epoch.update > plan.learning_rate.warmup_updates


def _is_memorized(epoch: EpochEnd) -> bool:
    trained = epoch.train_accuracy
    return trained is not None and trained > _MEMORIZED and trained - epoch.selection_accuracy > _GAP
