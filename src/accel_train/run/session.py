"""Carries out a run: resumes, saves, watches, rolls back and stops it."""

import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from accel_train.checkpoints.checkpointer import Checkpoints, Trained
from accel_train.checkpoints.run_folder import METRICS, PROFILE, WEIGHTS
from accel_train.config.durations import parse_duration, parse_interval
from accel_train.distributed import accelerator as distributed
from accel_train.distributed import process_group
from accel_train.distributed.replica_check import compare, fingerprint
from accel_train.distributed.watchdog import watch_peers
from accel_train.errors import UserError
from accel_train.events import EpochEnd, Event, Notice, Resumed, RunEnded, Saved, Stopped, UpdateDone
from accel_train.rng import make_key
from accel_train.run.build import Run
from accel_train.run.describe import facts
from accel_train.run.restore import go_on, newest_checkpoint, restore, take_folder
from accel_train.run.stop_agreement import Control
from accel_train.system.folder_lock import FolderLock
from accel_train.system.signals import Interruption
from accel_train.training import loop as engine
from accel_train.training.early_stopping import Stopping
from accel_train.training.loop import Waiting
from accel_train.training.nonfinite import Diverged
from accel_train.training.out_of_memory import as_memory_error
from accel_train.training.profiler import profiled
from accel_train.training.state import Position
from accel_train.training.timing import Meter

_ROLLBACKS = 3
"""That may go to one checkpoint: if nothing could be saved in between, the data are not to blame."""


class Session:
    """One process's share of carrying out a run, from taking its folder to the last event."""

    def __init__(self, run: Run, interruption: Interruption) -> None:
        """Collective: take the folder, and load what the run goes on from.

        Raises:
            UserError: another run writes there, or what it should go on from cannot be used.
        """
        self._run, self._task, config = run, run.task, run.config
        self._interruption = interruption
        self._accelerator = run.accelerator
        self._folder = run.place.folder
        self._meter = Meter()
        self._stopping = Stopping(config.target_accuracy, config.patience)
        self._interval = parse_interval(config.save_every)
        self._save_is_due = False
        self._rollbacks: list[Path] = []
        self._nonce: str = distributed.on_main(self._accelerator, lambda: uuid.uuid4().hex[:8])
        plain = distributed.unwrapped(self._accelerator, self._task.model)
        self._trained = Trained(plain, self._task.optimizer, self._task.average)
        self._peers = watch_peers(config.timeout)
        self._lock = FolderLock(self._folder)
        distributed.on_main(self._accelerator, lambda: take_folder(run, self._lock))
        restored, problems = go_on(run, self._trained)
        self.resumed = restored is not None
        self._position = restored or Position()
        self._notices = (*run.notices, *problems)
        self._checkpoints = Checkpoints(
            self._folder,
            self._trained,
            # Of its own: two threads that talk in one group take each other's answers.
            group=process_group.host_group(config.timeout) if self._accelerator.is_fsdp2 else None,
            rank=self._accelerator.process_index,
            keep=config.keep,
        )
        self._control = Control(
            run.group,
            interruption,
            seconds_left=parse_duration(config.time_limit) - interruption.seconds_running
            if config.time_limit
            else None,
            save_seconds=self._interval.count if self._interval.unit == "seconds" else None,
        )

    def events(self) -> Iterator[Event]:
        """Collective: train, and yield what happens."""
        yield facts(self._run)
        yield from map(Notice, self._notices)
        if self.resumed:
            yield Resumed(self._position.update)
        try:
            while True:
                try:
                    yield from self._train()
                except Diverged as divergence:
                    if self._run.config.on_nan == "stop":
                        raise
                    yield from self._saved(wait=True)
                    yield self._roll_back(divergence)
                except (RuntimeError, MemoryError) as error:
                    raise self._explained(error) from None
                else:
                    return
        finally:
            self._checkpoints.close()
            if self._peers:
                self._peers.stop()

    def _explained(self, error: BaseException) -> BaseException:
        """Return what to tell the user if memory has run out, else the error itself."""
        plan = self._task.plan
        out_of_memory = as_memory_error(
            error,
            rank=self._accelerator.process_index,
            batch_size=plan.batch_size,
            global_batch=plan.global_batch,
            processes=plan.processes,
        )
        return out_of_memory or error

    def _train(self) -> Iterator[Event]:
        waiting = Waiting(self._tick, self._interrupted)
        events: Iterator[Event] = engine.train(self._task, self._stopping, self._position, self._meter, waiting)
        if self._run.config.profile:
            events = profiled(events, self._meter, self._run.group, self._accelerator.device, self._folder / PROFILE)
        for event in events:
            if isinstance(event, EpochEnd) and event.best:
                self._export(WEIGHTS["best"])
            if isinstance(event, RunEnded):
                self._interruption.acknowledged()  # nothing is left to agree on: a signal must not cut the last save
                self._export(WEIGHTS["last"])
                yield from self._saved(wait=True)
            yield event  # before saving: what the sinks write of it belongs to the checkpoint
            yield from self._between(event)
            if self._control.stop:
                break
        if self._control.stop:
            yield from self._stop()

    def _between(self, event: Event) -> Iterator[Event]:
        """Collective: do what is due after an event; the model stands still meanwhile."""
        self._tick()
        if isinstance(event, UpdateDone):
            self._save_is_due |= self._control.after_update() or self._interval.is_due(update=event.update)
            if self._run.config.watch_every and event.update % self._run.config.watch_every == 0:
                with self._meter.held_up_by("watch"):
                    self._compare(event.update)
        elif isinstance(event, EpochEnd):
            self._save_is_due |= self._interval.is_due(epoch=self._position.epochs) or self._is_over()
        else:
            return
        # Of an update that ends an epoch, validation comes first: one checkpoint then holds both.
        whole_epoch = self._position.update == (self._position.epochs + 1) * self._task.plan.updates_per_epoch
        if self._save_is_due and not whole_epoch and not self._control.stop:
            self._save()
        if self._checkpoints.pending:
            yield from self._saved()

    def _is_over(self) -> bool:
        return self._position.epochs == self._task.plan.epochs or self._stopping.reason(self._position) is not None

    def _tick(self) -> None:
        if self._peers:
            self._peers.tick()

    def _interrupted(self) -> bool:
        self._tick()
        return self._control.interrupted()

    def _save(self) -> None:
        """Collective: begin to save the run as it is."""
        with self._meter.held_up_by("save"):
            plan = self._task.plan
            self._task.divergence.check(self._position.update, plan.learning_rate(max(0, self._position.update - 1)))
            self._position.epoch_sums = self._accelerator.reduce(self._task.epoch_sums.tensor.clone(), "sum").tolist()
            metrics = self._folder / METRICS
            kept = {
                "nonce": self._nonce,
                "metrics_bytes": metrics.stat().st_size if self._accelerator.is_main_process else 0,
                "identity": self._run.identity,
                "scaler": self._accelerator.scaler.state_dict() if self._accelerator.scaler else None,
            }
            self._checkpoints.save(self._position, kept)
        self._save_is_due = False

    def _export(self, name: str) -> None:
        """Collective: begin to write the model's weights, averaged ones where there are any, as one file."""
        average = self._task.average
        judged = average.in_place_of_weights() if average else nullcontext()
        with self._meter.held_up_by("save"), judged:
            weights = distributed.whole_weights(self._accelerator, self._task.model)
            self._checkpoints.save_weights(weights, self._folder / name)

    def _saved(self, wait: bool = False) -> Iterator[Saved]:
        """Yield what has been committed; with `wait`, collective: once all is."""
        with self._meter.held_up_by("save"):
            updates = self._checkpoints.committed(wait)
            if wait:
                process_group.exchange(self._run.group, [0])
        yield from map(Saved, updates)

    def _stop(self) -> Iterator[Event]:
        assert self._control.stop
        self._save()
        yield from self._saved(wait=True)
        yield Stopped(self._control.stop.name, self._position.update, self._control.stop.exit_code)

    def _compare(self, update: int) -> None:
        """Collective: see that all processes have the same weights, statistics, order and configuration."""
        plan, order, model = self._task.plan, self._task.sampler.sampler, self._trained.model
        found = {
            "weights": fingerprint(model.parameters()),
            "BatchNorm statistics": fingerprint(model.buffers()),
            "order": make_key(order.seed, order.images, self._position.epochs, self._position.update),
            "configuration": make_key(plan.global_batch, plan.batch_size, plan.total_updates, self._task.seed),
        }
        compare(self._run.group, found, update)

    def _roll_back(self, divergence: Diverged) -> Notice:
        """Collective: load the last checkpoint, and leave out the updates since."""
        checkpoint, _ = newest_checkpoint(self._run, self._folder)
        if checkpoint is None or self._rollbacks.count(checkpoint) == _ROLLBACKS:
            why = "nothing has been saved yet" if checkpoint is None else f"{_ROLLBACKS} rollbacks to it did not help"
            raise UserError(f"{divergence.message}; {why}", divergence.hint)
        self._rollbacks.append(checkpoint)
        restored, _ = restore(self._run, self._trained, checkpoint)
        same_epoch = restored.epochs == self._position.epochs and self._accelerator.is_main_process
        self._task.epoch_sums.load(restored.epoch_sums if same_epoch else [0.0] * len(restored.epoch_sums))
        self._position.skipped.append((restored.update, self._position.update))
        return Notice(
            f"{divergence.message}: rolled back to {checkpoint.name}, "
            f"leaving out the updates {restored.update + 1} to {self._position.update}"
        )
