"""Decides when to save, and saves: checkpoints, and the weights that a run exports.

A save is due after an interval of epochs, updates or time, and after the last epoch. It happens at the next event
after which the model stands still. If an epoch has just been trained, that is after its validation: one checkpoint
then holds both.
"""

import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from accel_train.checkpoints import store
from accel_train.checkpoints.checkpointer import Checkpointer, TrainedTensors, saving_in
from accel_train.config.durations import Interval
from accel_train.distributed import process_group
from accel_train.events import Notice, Saved
from accel_train.history.files import CHECKPOINTS, METRICS, WEIGHTS
from accel_train.loggers.text import quantity
from accel_train.run.build import Run
from accel_train.run.resume_point import decisive_values
from accel_train.system.os_errors import format_bytes
from accel_train.training.state import TrainingState

_KEPT_WHILE_RUNNING = 2


class SaveSchedule:
    """When to save."""

    def __init__(self, interval: Interval, updates_per_epoch: int) -> None:
        self._interval = interval
        self._updates_per_epoch = updates_per_epoch
        self._due = False

    @property
    def seconds(self) -> float | None:
        """The interval, if it is one of time."""
        return self._interval.count if self._interval.unit == "seconds" else None

    def after_update(self, update: int, time_is_up: bool) -> None:
        """Record an update; `time_is_up` is True if an interval of time is over."""
        self._due |= time_is_up or self._interval.is_due(update=update)

    def after_epoch(self, epochs: int, is_last: bool) -> None:
        """Record a validated epoch."""
        self._due |= is_last or self._interval.is_due(epoch=epochs)

    def is_due(self, state: TrainingState) -> bool:
        """Return whether to save now."""
        validation_follows = state.update == (state.epochs + 1) * self._updates_per_epoch
        return self._due and not validation_follows

    def saved(self) -> None:
        """Start the next interval."""
        self._due = False


class Saver:
    """Writes the checkpoints and weights of a run, and measures how long that blocks the loop."""

    def __init__(self, run: Run, trained: TrainedTensors) -> None:
        """Collective."""
        self._run = run
        self._processes = run.processes
        self._folder = run.resume_point.folder
        self._timing = run.training.timing
        self._nonce: str = run.processes.on_main(lambda: uuid.uuid4().hex[:8])
        self._checkpointer = Checkpointer(
            self._folder,
            trained,
            group=run.processes.strategy.checkpoint_group(run.config.timeout),
            rank=run.processes.rank,
            keep=run.config.keep or _KEPT_WHILE_RUNNING,
        )

    def save(self, state: TrainingState) -> None:
        """Collective: start to save the run as it is."""
        with self._timing.blocked_by("save"):
            training, accelerator = self._run.training, self._processes.accelerator
            training.nonfinite.check(state.update)
            state.epoch_sums = accelerator.reduce(training.updater.epoch_sums.tensor.clone(), "sum").tolist()
            extra = {
                "nonce": self._nonce,
                "metrics_bytes": _size(self._folder, METRICS) if self._processes.is_main else 0,
                "config": decisive_values(self._run.config),
                "identity": self._run.identity,
                "data": self._run.contents.as_record(),
                "scaler": accelerator.scaler.state_dict() if accelerator.scaler else None,
            }
            self._checkpointer.save(state, extra)
            process_group.exchange(self._processes.group, [0])  # others must not take a slow disk for a hung rank

    def export(self, which: str) -> None:
        """Collective: start to write the `last` or `best` weights, those of the EMA if there is one, as one file."""
        updater = self._run.training.updater
        exported = updater.ema.in_place_of_weights() if updater.ema else nullcontext()
        with self._timing.blocked_by("save"), exported:
            weights = self._processes.full_weights(updater.model)
            self._checkpointer.save_weights(weights, self._folder / WEIGHTS[which])

    @property
    def pending(self) -> bool:
        """True if a save is not known to be committed."""
        return self._checkpointer.pending

    def committed(self, wait: bool = False) -> Iterator[Saved]:
        """Yield the checkpoints committed since the last call; with `wait`, collective, wait for all ranks' saves."""
        with self._timing.blocked_by("save"):
            updates = self._checkpointer.committed(wait)
            if wait:
                process_group.exchange(self._processes.group, [0])
        yield from map(Saved, updates)

    def prune_finished(self, last: int) -> Iterator[Notice]:
        """Collective: remove all checkpoints but that of update `last` of a run whose weights are written.

        --keep keeps what it says.
        """
        if self._run.config.keep is not None:
            return
        text = self._processes.on_main(lambda: _pruned(self._folder / CHECKPOINTS, last))
        if text:
            yield Notice(text)

    def close(self) -> None:
        """Wait for all writes."""
        self._checkpointer.close()


def _size(folder: Path, name: str) -> int:
    with saving_in(folder):
        return (folder / name).stat().st_size


def _pruned(checkpoints: Path, last: int) -> str:
    """Remove all checkpoints but the last; return what the user should know, if anything."""
    try:
        sizes = store.prune(checkpoints, 1, {last})
    except OSError as error:
        return f"cannot remove older checkpoints of the finished run: {error.strerror}: {error.filename}"
    if not sizes:
        return ""
    removed = f"removed {quantity(len(sizes), 'checkpoint')} ({format_bytes(sum(sizes))})"
    return f"{removed}: the run is complete; its weights and the last checkpoint stay"
