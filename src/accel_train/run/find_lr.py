"""The LR range test (Smith 2017, §3.3): trains a run for some updates while the learning rate rises exponentially."""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from accel_train.config.find_lr_options import FindLrConfig
from accel_train.config.lr_schedule import Schedule
from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan
from accel_train.distributed.accelerator import stop
from accel_train.distributed.launcher import check_processes
from accel_train.distributed.watchdog import start_watchdog
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.run.build import Run, build_run
from accel_train.run.learning_notes import about_learning
from accel_train.run.preview import nowhere, run_of
from accel_train.run.remedies import smaller_batch
from accel_train.training.loop import Training
from accel_train.training.lr_range import FEWEST, Suggestion, Tried, has_diverged
from accel_train.training.metrics import means
from accel_train.training.torch_settings import restored_torch_options

_UPDATES = 100
_RISEN = 1.05
"""Times the loss at the start."""
_LOWEST, _HIGHEST = 1e-3, 1e2
"""Times the usual learning rate of the model and the optimizer."""


@dataclass(frozen=True)
class RangeTest:
    """What is tried."""

    config: ResolvedConfig
    plan: Plan
    """With the rising learning rate; it ends with the test."""
    is_main: bool
    notices: tuple[str, ...]
    updates: Iterator[Tried]
    """Collective: makes the updates, until the loss diverges."""


@contextmanager
def range_test(wanted: FindLrConfig, origins: dict[str, str]) -> Iterator[RangeTest]:
    """Collective: prepare a test; write nothing.

    Raises:
        UserError: the run could not start, or makes too few updates.
    """
    check_processes(wanted.processes)
    with ExitStack() as stack:
        stack.enter_context(restored_torch_options())
        stack.callback(stop)
        asked, given = run_of(wanted, origins)
        alone = {"resume": "never", "output": None, "profile": False, "ema": None}
        run = build_run(asked.model_copy(update=alone), given, find=nowhere)
        stack.callback(run.watchdog.stop)
        plan = _rising(run, wanted)
        start_watchdog(run.watchdog, run.config.timeout)
        training = replace(run.training, plan=plan, updater=replace(run.training.updater, plan=plan))
        # It has its own rates and number of updates.
        notices = tuple(note for note in run.notices if note not in about_learning(run.config, run.plan))
        yield RangeTest(run.config, plan, run.processes.is_main, notices, _tried(training, run))


def remedy(config: ResolvedConfig, plan: Plan, tried: Sequence[Tried], found: Suggestion) -> str:
    """Return what to try after a test without a suggestion; `plan` is that of the test."""
    first, last = tried[0].lr, tried[-1].lr
    if found.diverged_at is None and found.losses[-1] < _RISEN * found.losses[0]:
        return f"try a higher rate: --end-lr {float(f'{100 * last:.0e}'):g}"
    if found.falls_until == first:
        return f"it rises from the lowest rate on: try a lower one: --start-lr {float(f'{first / 100:.0e}'):g}"
    updates, there = max(_UPDATES, 2 * plan.learning_rate.total_updates), plan.total_updates
    longer = f"--epochs {math.ceil(updates / plan.updates_per_epoch)} " * (there < updates)
    more = f"{longer}--updates {updates}"
    fewer_images = smaller_batch(config, plan, plan.global_batch / 2) if there < updates else None
    return f"it rises after too few updates: try {more}" + f" or {fewer_images}" * (fewer_images is not None)


def _tried(training: Training, run: Run) -> Iterator[Tried]:
    """Collective: make the updates; each yields the loss over its images on all processes, before it."""
    updater, plan = training.updater, training.plan
    micro_batches = training.batches.micro_batches(0, training.timing)
    losses: list[float] = []
    for update in range(plan.learning_rate.total_updates):
        if update % plan.updates_per_epoch == 0:
            epoch = update // plan.updates_per_epoch
            training.freezing.begin_epoch(epoch, updater.accelerator, updater.strategy, updater.model)
        updater.epoch_sums.clear()
        updater.update(micro_batches, update)
        run.watchdog.tick()
        losses.append(means(updater.accelerator.reduce(updater.epoch_sums.tensor, "sum")).loss)
        yield Tried(plan.learning_rate(update), losses[-1])
        if has_diverged(losses):
            return


def _rising(run: Run, wanted: FindLrConfig) -> Plan:
    """Return the plan with a learning rate that rises from update to update.

    Raises:
        UserError: the run makes too few updates, or the rates are in the wrong order.
    """
    there, usual = run.plan.total_updates, run.config.usual_rate.lr
    updates = wanted.updates or min(_UPDATES, there)
    if updates > there or there < FEWEST:
        asked = f"--updates {updates}, but" if wanted.updates else f"{quantity(FEWEST, 'update')} are needed, and"
        fewer = f", or at most --updates {there}" * (there >= FEWEST)
        raise UserError(
            f"{asked} the run makes {there:,}",
            f"use --epochs {math.ceil((wanted.updates or _UPDATES) / run.plan.updates_per_epoch)}, "
            f"or a smaller batch{fewer}",
        )
    start, end = wanted.start_lr or usual * _LOWEST, wanted.end_lr or usual * _HIGHEST
    if start >= end:
        if wanted.end_lr is None:
            message = f"--start-lr {start:g} is not below {end:g}, the default of --end-lr"
            raise UserError(message, f"add --end-lr {100 * start:g}")
        message = f"--end-lr {end:g} is not above {start:g}, the default of --start-lr"
        raise UserError(message, f"add --start-lr {end / 100:g}")
    factor = (end / start) ** (1 / (updates - 1))
    rising = Schedule("step", start, updates, milestones=tuple(range(1, updates)), gamma=factor)
    return replace(run.plan, learning_rate=rising)
