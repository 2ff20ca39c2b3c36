"""Carries out a run: the flow of its events."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack

import torch

from accel_train.checkpoints.checkpointer import TrainedTensors
from accel_train.config.durations import parse_duration, parse_interval
from accel_train.config.options import TrainConfig
from accel_train.distributed.accelerator import stop
from accel_train.distributed.environment import available_cores, local_world_size, restart_notes, restarts
from accel_train.distributed.launcher import check_processes
from accel_train.distributed.peer_loss import PeerLostError, what_was_lost
from accel_train.distributed.ranks import hosts_of
from accel_train.distributed.replica_check import compare, fingerprint
from accel_train.distributed.watchdog import start_watchdog
from accel_train.events import EpochEnd, Event, Notice, RanksStarted, Resumed, RunEnded, Stopped, UpdateDone
from accel_train.history.files import PROFILE
from accel_train.rng import make_key
from accel_train.run.advice import advice_after
from accel_train.run.build import Run, build_run
from accel_train.run.claim import Claim
from accel_train.run.describe import run_started
from accel_train.run.final_predictions import remove_earlier, write_final_predictions
from accel_train.run.learning_notes import LearningNotes
from accel_train.run.restore import resume, take_folder
from accel_train.run.rollback import Rollback
from accel_train.run.saving import Saver, SaveSchedule
from accel_train.run.stop_agreement import StopAgreement
from accel_train.system.cpu_wait import CpuWait
from accel_train.system.signals import StopSignals
from accel_train.system.worker_signals import ended_workers_ignored
from accel_train.training.loop import train as training_events
from accel_train.training.nonfinite import Diverged
from accel_train.training.out_of_memory import as_memory_error
from accel_train.training.profiler import profiled
from accel_train.training.state import TrainingState
from accel_train.training.torch_settings import restored_torch_options


def train(
    config: TrainConfig, origins: dict[str, str] | None = None, signals: StopSignals | None = None
) -> Generator[Event, None, None]:
    """Collective: build and carry out a run, and yield its events.

    `origins` holds where each given value came from. Without `signals` the run listens to none.

    Raises:
        UserError: something asked for cannot be had.
    """
    check_processes(config.processes)
    given = dict.fromkeys(config.model_fields_set, "given") if origins is None else origins
    with ExitStack() as stack:
        stack.enter_context(restored_torch_options())
        stack.callback(stop)
        claim = Claim(config.timeout / 2 if restarts() else None)
        stack.callback(claim.release)
        run = build_run(config, given, claim.find_resume_point)
        stack.callback(run.watchdog.stop)
        yield from Session(run, signals or StopSignals()).events()


class Session:
    """One process's share of a run, from taking its folder to the last event."""

    def __init__(self, run: Run, signals: StopSignals) -> None:
        """Collective: prepare the folder, and load what the run resumes from.

        Raises:
            UserError: the checkpoint to resume from cannot be used.
        """
        self._run, self._training, self._processes = run, run.training, run.processes
        self._signals = signals
        config, updater = run.config, run.training.updater
        self._schedule = SaveSchedule(parse_interval(config.save_every), run.plan.updates_per_epoch)
        self._trained = TrainedTensors(run.plain_model, updater.optimizer, updater.ema, run.processes.strategy)
        start_watchdog(run.watchdog, config.timeout)
        self._processes.on_main(lambda: take_folder(run))
        restored, problems = resume(run, self._trained)
        self._resumed = restored is not None
        self._state = restored or TrainingState()
        self._notices = (*run.notices, *restart_notes(), *problems)
        self._learning = LearningNotes(run.config, run.plan, run.contents, self._state.last)
        self._rollback = Rollback(run, self._trained)
        self._saver = Saver(run, self._trained)
        self._cpu_wait = CpuWait(torch.get_num_threads(), local_world_size(), available_cores())
        self._agreement = StopAgreement(
            run.processes.group,
            signals,
            seconds_left=parse_duration(config.time_limit) - signals.seconds_running if config.time_limit else None,
            save_seconds=self._schedule.seconds,
        )

    def events(self) -> Generator[Event, None, None]:
        """Collective: train, and yield what happens."""
        state = self._state
        yield run_started(self._run)
        if self._resumed:
            yield Resumed(min(state.epochs + 1, self._run.plan.epochs), state.update, state.seconds)
        yield RanksStarted(self._processes.ranks)
        yield from map(Notice, self._notices)
        try:
            while True:
                try:
                    yield from self._train()
                except Diverged as diverged:
                    if self._run.config.on_nan == "stop":
                        raise
                    with self._signals.saving():
                        yield from self._saver.committed(wait=True)
                    yield self._rollback(self._state, diverged)
                except (RuntimeError, MemoryError) as error:
                    raise self._with_hint(error) from None
                else:
                    return
        finally:
            with self._signals.saving():
                self._saver.close()

    def _with_hint(self, error: BaseException) -> BaseException:
        """Return an error with a hint if memory has run out, or that names a lost host; else the error itself."""
        if len(hosts_of(self._processes.ranks)) > 1 and what_was_lost(error):
            return PeerLostError(self._run.watchdog.lost())
        plan = self._run.plan
        out_of_memory = as_memory_error(
            error,
            rank=self._processes.rank,
            batch_size=plan.batch_size,
            global_batch=plan.global_batch,
            processes=plan.processes,
        )
        return out_of_memory or error

    def _train(self) -> Iterator[Event]:
        events: Iterator[Event] = training_events(self._training, self._state, self._interrupted)
        if self._run.config.profile:
            folder = self._run.resume_point.folder / PROFILE
            events = profiled(events, self._training.timing, self._processes.group, self._processes.device, folder)
        for event in events:
            if isinstance(event, EpochEnd) and event.best:
                self._saver.export("best")
            if isinstance(event, RunEnded):
                self._signals.acknowledged()  # nothing is left to agree on: a signal must not cut the last save
                with ended_workers_ignored():
                    self._processes.on_main(lambda: remove_earlier(self._run.resume_point.folder))
                    self._saver.export("last")
                    yield from self._saver.committed(wait=True)
                    yield from self._saver.prune_finished(event.updates)
            yield event  # before saving: what loggers write of it belongs to the checkpoint
            if isinstance(event, EpochEnd):
                yield from map(Notice, self._learning.after(event))
            yield from self._between(event)
            if self._agreement.stop:
                break
        if self._agreement.stop:
            yield from self._stop()
        else:
            yield from self._look_back()

    def _look_back(self) -> Iterator[Event]:
        """Collective: write and yield what tells of a run that is complete; a failure is only noted."""
        if self._run.config.report and (problem := write_final_predictions(self._run)):
            yield Notice(problem)
        advice = advice_after(self._run, self._learning)
        yield from map(Notice, advice)
        if self._run.config.report:
            from accel_train.run.report import final_report  # takes 40 ms, and its time is not that of the start

            yield from final_report(self._run, advice)

    def _between(self, event: Event) -> Iterator[Event]:
        """Collective: check the replicas and save, if due, after an event; the model stands still meanwhile."""
        self._run.watchdog.tick()
        if isinstance(event, UpdateDone):
            if note := self._cpu_wait.note():
                yield Notice(note)
            self._schedule.after_update(event.update, self._agreement.after_update())
            watch_every = self._run.config.watch_every
            if watch_every and event.update % watch_every == 0:
                with self._training.timing.blocked_by("watch"):
                    self._check_replicas(event.update)
        elif isinstance(event, EpochEnd):
            self._schedule.after_epoch(self._state.epochs, self._is_over())
            if not self._is_over():
                self._agreement.after_epoch()
        else:
            return
        if self._schedule.is_due(self._state) and not self._agreement.stop:
            self._save()
        if self._saver.pending:
            yield from self._saver.committed()

    def _is_over(self) -> bool:
        all_done = self._state.epochs == self._run.plan.epochs
        return all_done or self._training.early_stopping.reason(self._state) is not None

    def _interrupted(self) -> bool:
        self._run.watchdog.tick()
        return self._agreement.interrupted()

    def _save(self) -> None:
        with self._signals.saving():
            self._saver.save(self._state)
        self._schedule.saved()

    def _stop(self) -> Iterator[Event]:
        assert self._agreement.stop
        with ended_workers_ignored():
            self._save()
            yield from self._saver.committed(wait=True)
        yield Stopped(self._agreement.stop.name, self._state.update, self._agreement.stop.exit_code)

    def _check_replicas(self, update: int) -> None:
        """Collective: check that all ranks have the same weights, buffers, order and configuration."""
        plan, order, model = self._run.plan, self._training.batches.sampler.sampler, self._trained.model
        strategy = self._processes.strategy
        weights, buffers = (
            [strategy.local(tensor) for tensor in tensors if strategy.is_replicated(tensor)]
            for tensors in (model.parameters(), model.buffers())
        )
        fingerprints = {
            "weights": fingerprint(weights),
            "BatchNorm statistics": fingerprint(buffers),
            "order": make_key(order.seed, order.images, self._state.epochs, self._state.update),
            "configuration": make_key(plan.global_batch, plan.batch_size, plan.total_updates, self._run.config.seed),
        }
        compare(self._processes.group, fingerprints, update)
        parts = [strategy.part(rank) for rank in range(self._processes.count)]
        if 1 < len(set(parts)) < len(parts):  # each part of the split tensors has replicas of its own
            tensors = (*model.parameters(), *model.buffers())
            split = [strategy.local(tensor) for tensor in tensors if not strategy.is_replicated(tensor)]
            compare(self._processes.group, {"part of the weights": fingerprint(split)}, update, parts)
