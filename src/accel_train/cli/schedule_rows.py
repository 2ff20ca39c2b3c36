"""Where the learning rate of a run comes from: its numbers, each with its origin, as rows; its curve."""

import math
from collections.abc import Iterator, Mapping

from accel_train.config.lr_schedule import SCALINGS, Schedule
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan
from accel_train.loggers.rows import Row
from accel_train.loggers.text import learning_rate, option_value, quantity

_MOST_POINTS = 1000


def rate_rows(config: ResolvedConfig, origins: Mapping[str, str], plan: Plan, images: int) -> Iterator[Row]:
    """Yield rows for base rate, batch, scaling, limit, peak, warmup, updates and schedule."""
    said = _Origins(config, origins)
    yield "base rate", f"{said.value('lr')}" + _per_base_batch(said)
    yield "global batch", _global_batch(said, plan)
    if config.lr_scaling != "none":
        yield "scaling", _scaling(said, plan)
    else:
        yield "scaling", said.value("lr_scaling")
    if config.max_lr is not None:
        yield "limit", said.value("max_lr")
    yield "peak", _peak(config, plan)
    yield "warmup", _warmup(said, plan)
    dropped = f", {plan.images_dropped:,} of {images:,} images dropped in each" * bool(plan.images_dropped)
    yield "updates", f"{plan.total_updates:,}: {plan.updates_per_epoch:,} in each epoch{dropped}"
    yield "epochs", said.value("epochs")
    yield "schedule", said.value("schedule")
    if config.milestones:
        yield "milestones", said.value("milestones")
        yield "", f"updates {', '.join(f'{update:,}' for update in plan.learning_rate.milestones)}"
        yield "gamma", said.value("gamma")
    yield "last update", learning_rate(plan.learning_rate(plan.total_updates - 1))
    if OPTIMIZERS[config.optimizer].scales_betas:
        yield "betas, eps", _betas(config, plan)


def curve_points(schedule: Schedule) -> list[tuple[float, float]]:
    """Return updates, counted from 1, with their learning rates: at most 1,000, and those where the curve bends."""
    last = schedule.total_updates - 1
    bends = (schedule.warmup_updates, *(m - before for m in schedule.milestones for before in (1, 0)))
    every = max(1, math.ceil(schedule.total_updates / _MOST_POINTS))
    updates = {*range(0, last, every), last, *(bend for bend in bends if 0 <= bend <= last)}
    return [(update + 1, schedule(update)) for update in sorted(updates)]


class _Origins:
    """The values of a config as text, each with its origin."""

    def __init__(self, config: ResolvedConfig, origins: Mapping[str, str]) -> None:
        self.config = config
        self._origins = origins

    def of(self, name: str) -> str:
        """Return where a value comes from: its option, a file, or a default."""
        origin = self._origins.get(name, "default")
        return f"--{name.replace('_', '-')}" if origin == "flag" else origin

    def value(self, name: str) -> str:
        """Return a value with its origin."""
        value = getattr(self.config, name)
        return f"{option_value(value)} ({self.of(name)})"


def _per_base_batch(said: _Origins) -> str:
    base = said.config.lr_base_batch
    return f", for {base:,} images per update ({said.of('lr_base_batch')})" if base else ""


def _global_batch(said: _Origins, plan: Plan) -> str:
    if said.config.global_batch_size is not None:
        return f"{plan.global_batch:,} images ({said.of('global_batch_size')})"
    factors = [f"batch size {plan.batch_size:,} ({said.of('batch_size')})"]
    if plan.replicas > 1:
        factors.append(quantity(plan.replicas, *(("process", "processes") if plan.stages == 1 else ("replica",))))
    if plan.accumulate > 1:
        factors.append(f"accumulate {plan.accumulate}")
    return f"{plan.global_batch:,} images: {' × '.join(factors)}"


def _scaling(said: _Origins, plan: Plan) -> str:
    config = said.config
    assert config.lr_base_batch
    ratio = f"{plan.global_batch:,} / {config.lr_base_batch:,}"
    factor = {"linear": f" × {ratio}", "sqrt": f" × √({ratio})"}[config.lr_scaling]
    scaled = config.lr * SCALINGS[config.lr_scaling](plan.global_batch / config.lr_base_batch)
    return f"{learning_rate(config.lr)}{factor} = {learning_rate(scaled)}, {said.value('lr_scaling')}"


def _peak(config: ResolvedConfig, plan: Plan) -> str:
    peak, usual = plan.learning_rate.peak, config.usual_rate.max_lr
    capped = ", the limit" * (peak == config.max_lr)
    return f"{learning_rate(peak)}{capped}" + f": {_above_limit(config)}" * (peak > usual)


def _above_limit(config: ResolvedConfig) -> str:
    limit = config.usual_rate.max_lr
    return f"above {limit:g}, the default limit of {config.model} with {config.optimizer}, it may diverge"


def _warmup(said: _Origins, plan: Plan) -> str:
    config, schedule = said.config, plan.learning_rate
    epochs = f"{config.warmup_epochs:g} epoch{'s' * (config.warmup_epochs != 1)} ({said.of('warmup_epochs')})"
    if not schedule.warmup_updates:
        return f"none: {epochs}"
    if config.warmup_from is not None:
        start = said.of("warmup_from")
    else:
        start = "the base rate, which scaling raised" if schedule.warmup_from == config.lr else "1 % of the peak"
    updates = quantity(schedule.warmup_updates, "update")
    above = ", above the peak: the rate falls" * (schedule.warmup_from > schedule.peak)
    above += f"; {_above_limit(config)}" * (schedule.warmup_from > max(schedule.peak, config.usual_rate.max_lr))
    return f"{updates} from {learning_rate(schedule.warmup_from)} ({start}){above}; {epochs}"


def _betas(config: ResolvedConfig, plan: Plan) -> str:
    betas = ", ".join(f"{beta:.4g}" for beta in plan.betas)
    return f"{betas}, {plan.eps:.3g}" + " (scaled with the batch)" * (config.lr_scaling == "sqrt")
