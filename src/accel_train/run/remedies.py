"""What to try when a run diverges or learns nothing: options, with values that differ from the present ones."""

import math

from accel_train.config.optimizers import BASE_BATCH, OPTIMIZERS
from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan

# Measured: the table is in benchmarks/defaults/.
MIN_UPDATES = 250
"""Updates of a run, below which few models learn."""
MIN_UPDATES_PER_EPOCH = 5
ENOUGH_UPDATES = 1000
"""Updates of a run with which a batch above the limit of scaling learns as much as smaller ones."""
MOST_ABOVE_LIMIT = 4
"""Times the batch at which scaling stops, from which on a run of fewer updates learns less."""

_MIN_BATCH_SIZE = 16  # for BatchNorm
_TOO_LOW = 1 / 10  # of the usual peak
_LESS_AFTER_DIVERGENCE = 1 / 4  # of the learning rate that was too high
_MOST_FOR_CLIPPING = 10  # times the limit of the learning rate: above it, a run with clipped gradients learns nothing
_MORE_AUGMENTATION = {"none": "standard", "light": "standard", "standard": "strong"}
_MORE_WEIGHT_DECAY = 4


def after_divergence(config: ResolvedConfig, plan: Plan, updates: int) -> str:
    """Return a hint for a loss or weight that was not finite; `updates` is the number of updates that led to it."""
    if updates == 0:
        weights = f" or the weights of --weights {config.weights}" if config.starts_from_weights else ""
        return (
            "no update was made before, so the learning rate is not the cause: "
            f"look for NaN in the images{weights}, and for overflow in --model {config.model}"
        )
    rollback = "; --on-nan rollback skips the data since the last checkpoint" * (config.on_nan == "stop")
    rate = plan.learning_rate
    # It rises at most until warmup ends.
    highest = max(rate(0), rate(min(updates - 1, rate.warmup_updates)))
    if highest < _TOO_LOW * _usual_peak(config, plan):
        return f"its learning rate was low: look for NaN in the images, or overflow in --model {config.model}{rollback}"
    clip = " or --clip-norm 1" * (config.clip_norm is None and highest <= _MOST_FOR_CLIPPING * _limit(config))
    return f"try {_lower(config, plan, highest)}{clip} (learning rate so far at most {highest:.4g}){rollback}"


def against_chance(config: ResolvedConfig, plan: Plan) -> str:
    """Return the options for a run that learns nothing: a higher learning rate, more updates or a lower one."""
    highest = plan.learning_rate.highest
    now = f"(peak now {highest:.4g})"
    if highest < _TOO_LOW * _usual_peak(config, plan):
        return f"{_higher(config, plan)} {now}"
    lower = f"{_lower(config, plan, highest)} {now}"
    return lower if highest > _limit(config) else more_updates(config, plan) or lower


def more_updates(config: ResolvedConfig, plan: Plan) -> str | None:
    """Return options with which a run makes at least `MIN_UPDATES`, and an epoch `MIN_UPDATES_PER_EPOCH`.

    None if it does, or cannot.
    """
    if plan.total_updates >= MIN_UPDATES and plan.updates_per_epoch >= MIN_UPDATES_PER_EPOCH:
        return None
    images = plan.updates_per_epoch * plan.global_batch + plan.images_dropped
    per_epoch = {size: images // (size[0] * size[1]) for size in _batches(plan)}
    in_epoch = [size for size, updates in per_epoch.items() if updates >= MIN_UPDATES_PER_EPOCH]
    smaller = next((size for size in in_epoch if per_epoch[size] * plan.epochs >= MIN_UPDATES), None)
    longer = in_epoch[0] if in_epoch else list(per_epoch)[-1]
    options = [_batch_options(config, plan, *smaller)] if smaller else []
    if not smaller or longer == (plan.batch_size, plan.micro_batches):
        epochs = max(plan.epochs, math.ceil(MIN_UPDATES / per_epoch[longer]))
        more = [f"--epochs {epochs}"] * (epochs > plan.epochs)
        options.append(" ".join([_batch_options(config, plan, *longer), *more]).strip())
    return " or ".join(filter(None, options)) or None


def limit_batch(config: ResolvedConfig) -> float:
    """Return the images per update at which scaling reaches its limit; infinite if it has none."""
    if config.max_lr is None or config.lr_base_batch is None:
        return math.inf
    ratio = config.max_lr / config.lr
    return config.lr_base_batch * (ratio**2 if config.lr_scaling == "sqrt" else ratio)


def more_updates_above_limit(config: ResolvedConfig, plan: Plan) -> str | None:
    """Return options for a global batch of more than `MOST_ABOVE_LIMIT` times the limit of scaling; None for others.

    They lead to a smaller one, or to at least `ENOUGH_UPDATES`.
    """
    most = MOST_ABOVE_LIMIT * limit_batch(config)
    if plan.global_batch <= most or plan.total_updates >= ENOUGH_UPDATES:
        return None
    smaller = next((size for size in _batches(plan) if size[0] * size[1] <= most), None)
    options = [_batch_options(config, plan, *smaller)] if smaller else []
    return " or ".join([*options, f"--epochs {math.ceil(ENOUGH_UPDATES / plan.updates_per_epoch)}"])


def smaller_batch(config: ResolvedConfig, plan: Plan, most: float) -> str | None:
    """Return options for a global batch of at most `most` images, or else the smallest; None if it is the smallest."""
    smaller = [size for size in _batches(plan) if size[0] * size[1] < plan.global_batch]
    fitting = [size for size in smaller if size[0] * size[1] <= most]
    return _batch_options(config, plan, *(fitting or smaller[-1:])[0]) if smaller else None


def against_memorizing(config: ResolvedConfig) -> str:
    """Return the options of regularization that a run does not use yet."""
    usual = OPTIMIZERS[config.optimizer].weight_decay
    decay = _MORE_WEIGHT_DECAY * config.weight_decay or usual
    options = {
        f"--augment {_MORE_AUGMENTATION.get(config.augment)}": config.augment in _MORE_AUGMENTATION,
        f"--weight-decay {decay:g} (now {config.weight_decay:g})": decay <= _MORE_WEIGHT_DECAY * usual,
        "--label-smoothing 0.1": config.label_smoothing == 0,
    }
    more = "a larger --limit" if config.limit else "more images"
    return " or ".join(filter(None, [", ".join(option for option, unused in options.items() if unused), more]))


def lowered(config: ResolvedConfig, plan: Plan, to: float) -> str:
    """Return the options with which no learning rate of a run is above `to`."""
    options = {
        "--lr" if config.lr_scaling == "none" else "--max-lr": plan.learning_rate.peak > to,
        "--warmup-from": (config.warmup_from or 0) > to,
    }
    return " ".join(f"{option} {to:g}" for option, above in options.items() if above)


def round_down(rate: float) -> float:
    """Return the largest of 1, 2 or 5 times a power of ten that is no higher than a learning rate."""
    power = math.floor(math.log10(rate))
    digit = max(digit for digit in (1, 2, 5) if digit == 1 or float(f"{digit}e{power}") <= rate)
    return float(f"{digit}e{power}")


def _lower(config: ResolvedConfig, plan: Plan, too_high: float) -> str:
    """Return the options for a run whose learning rate was too high: a lower one, at most the usual peak."""
    return lowered(config, plan, round_down(min(too_high * _LESS_AFTER_DIVERGENCE, _usual_peak(config, plan))))


def _higher(config: ResolvedConfig, plan: Plan) -> str:
    """Return the options for a run whose learning rate is too low: those that lead to the usual peak."""
    if config.lr_scaling == "none":
        return f"--lr {round_down(_usual_peak(config, plan)):g}"
    optimizer = OPTIMIZERS[config.optimizer]
    rate = config.usual_rate
    options = {
        f"--lr {rate.lr:g}": config.lr != rate.lr,
        f"--lr-scaling {optimizer.scaling}": config.lr_scaling != optimizer.scaling,
        f"--lr-base-batch {BASE_BATCH}": config.lr_base_batch != BASE_BATCH,
        f"--max-lr {rate.max_lr:g}": config.max_lr != rate.max_lr,
    }
    return " ".join(option for option, differs in options.items() if differs)


def _limit(config: ResolvedConfig) -> float:
    return config.usual_rate.max_lr


def _usual_peak(config: ResolvedConfig, plan: Plan) -> float:
    return OPTIMIZERS[config.optimizer].usual_peak(config.usual_rate, plan.global_batch)


def _batches(plan: Plan) -> list[tuple[int, int]]:
    """Return batch sizes with numbers of micro-batches, the present ones first, then ever smaller ones."""
    batch_size, micro_batches = plan.batch_size, plan.micro_batches
    found = [(batch_size, micro_batches)]
    while micro_batches > plan.replicas:
        micro_batches = max(1, micro_batches // 2 // plan.replicas) * plan.replicas
        found.append((batch_size, micro_batches))
    while batch_size > _MIN_BATCH_SIZE:
        batch_size = max(batch_size // 2, _MIN_BATCH_SIZE)
        found.append((batch_size, micro_batches))
    return found


def _batch_options(config: ResolvedConfig, plan: Plan, batch_size: int, micro_batches: int) -> str:
    """Return the options of a batch that differ from the present ones; together with the others given, they fit."""
    if (batch_size, micro_batches) == (plan.batch_size, plan.micro_batches):
        return ""
    own = f"--batch-size {batch_size}" * (batch_size != plan.batch_size or plan.processes > 1)
    if config.global_batch_size is not None:
        return f"--global-batch-size {batch_size * micro_batches} {own}".strip()
    own = f"--batch-size {batch_size}" * (batch_size != plan.batch_size)
    accumulate = micro_batches // plan.replicas
    return f"{own} {f'--accumulate {accumulate}' * (accumulate != plan.accumulate)}".strip()
