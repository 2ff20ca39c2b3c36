"""Computes updates of a run again from the checkpoint before them, and checks them against what the run has stored.

A run stores the numbers of every `log_every`-th update, a hash of its weights after each epoch, and checkpoints. So the
updates are computed from the checkpoint before the one asked for to the first one after it at which weights are known:
if both ends and all numbers in between agree to the last bit, so does the update.
"""

import math
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from accel_train.checkpoints import store
from accel_train.checkpoints.checkpointer import TrainedTensors
from accel_train.config.replay_options import ReplayConfig
from accel_train.distributed import process_group
from accel_train.distributed.accelerator import stop
from accel_train.distributed.launcher import check_processes
from accel_train.distributed.replica_check import fingerprint
from accel_train.distributed.watchdog import start_watchdog
from accel_train.events import Progress
from accel_train.history.checks import WEIGHTS, Check, progress_checks
from accel_train.history.files import CHECKPOINTS
from accel_train.run.build import Run
from accel_train.run.contact_sheet import Captioned
from accel_train.run.replay_setup import StoredRun, build_again, first_schedule, open_stored
from accel_train.run.restore import restore
from accel_train.run.update_pictures import pictures_of_update
from accel_train.training.loop import progress
from accel_train.training.rank_report import RankReport
from accel_train.training.state import TrainingState
from accel_train.training.torch_settings import restored_torch_options

_MOST_IMAGES = 256
"""Of an update that are shown."""


@dataclass(frozen=True)
class Replayed:
    """An update as it was computed again, and what agrees with the run."""

    run_folder: str
    values: Progress
    """Of the update asked for."""
    checkpoint: str | None
    """Where the replay started; None: at the beginning."""
    first: int
    """First update computed, `last` the last."""
    last: int
    logged: int | None
    """The first recorded update that is not before the one asked for."""
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    global_batch: int
    images: tuple[Captioned, ...]
    """Of the update, if they are to be shown; on rank 0."""


def replay(folder: Path, update: int, config: ReplayConfig, origins: dict[str, str]) -> Replayed:
    """Collective: replay an update of a run, counted from 1; write nothing.

    Raises:
        UserError: the run has not come so far, or cannot be built here.
    """
    check_processes(config.processes)
    stored = open_stored(folder, update)
    with ExitStack() as stack:
        stack.enter_context(restored_torch_options())
        stack.callback(stop)
        run, differences = build_again(stored, config, origins)
        stack.callback(run.watchdog.stop)
        start_watchdog(run.watchdog, run.config.timeout)
        replaying = _Replay(stored, run, update)
        replaying.compute()
        checks = (*replaying.checks, *replaying.check_with_checkpoint())
        shown = run.processes.is_main and config.show is not None
        images = tuple(islice(pictures_of_update(run, update), _MOST_IMAGES)) if shown else ()
        assert replaying.values
        return Replayed(
            run_folder=str(folder),
            values=replaying.values,
            checkpoint=stored.checkpoint.name if stored.checkpoint else None,
            first=replaying.first,
            last=replaying.last,
            logged=min((logged for logged in replaying.recorded if logged >= update), default=None),
            checks=checks,
            notes=(*stored.notes, *differences),
            global_batch=run.plan.global_batch,
            images=images,
        )


class _Replay:
    """The updates of a replay."""

    def __init__(self, stored: StoredRun, run: Run, update: int) -> None:
        """Load the checkpoint that the replay starts from."""
        self._run, self._stored, self._update = run, stored, update
        self._training, updater = run.training, run.training.updater
        self._extended_at, plan = first_schedule(stored.history, run.plan)
        self._before_extension = replace(self._training, plan=plan, updater=replace(updater, plan=plan))
        self._trained = TrainedTensors(run.plain_model, updater.optimizer, updater.ema, run.processes.strategy)
        self._state = TrainingState()
        if stored.checkpoint:
            self._state = restore(run, self._trained, stored.checkpoint).position
        self.first = self._state.update + 1
        skipped = stored.newest.position.skipped if stored.newest else []
        self._skipped = {first: last for first, last in skipped if self.first <= first + 1 and last < update}
        rolled_back = min((last for _, last in skipped if last >= update), default=math.inf)
        metrics = stored.history.metrics
        self._hashes = {report.update: report.ranks for report in metrics.by_rank}
        self.recorded = {p.update: p for p in metrics.progress if self.first <= p.update <= rolled_back}
        of_weights = [known for known in (*self._hashes, *stored.later) if known <= rolled_back]
        self.last = max([update, *_first_from(update, of_weights), *_first_from(update, self.recorded)])
        self.values: Progress | None = None
        self.checks: list[Check] = []

    def compute(self) -> None:
        """Collective: compute all updates, and check the numbers and hashes that the run has recorded."""
        same = self._stored.history.started.get("world_size") == self._run.processes.count
        for replayed in self._updates():
            if replayed.update == self._update:
                self.values = replayed
            if recorded := self.recorded.get(replayed.update):
                self.checks += progress_checks(recorded, replayed, same_processes=same)
            if replayed.update in self._hashes:
                self._check_hashes(replayed.update)

    def _updates(self) -> Iterator[Progress]:
        """Collective: yield the numbers of each update; updates that a rollback has skipped are skipped again."""
        state, per_epoch, continued = self._state, self._run.plan.updates_per_epoch, True
        while state.update < self.last:
            if state.update in self._skipped:
                state.update, continued = self._skipped[state.update], True
            training = self._training if state.update >= self._extended_at else self._before_extension
            updater = training.updater
            if continued:
                micro_batches = training.batches.micro_batches(state.update, training.timing)
            if continued or state.update % per_epoch == 0:
                state.epochs = state.update // per_epoch
                training.freezing.begin_epoch(state.epochs, updater.accelerator, updater.strategy, updater.model)
            continued = False
            updated = updater.update(micro_batches, state.update, measured=True)
            state.update += 1
            self._run.watchdog.tick()
            yield progress(training, state, updated)

    def _check_hashes(self, update: int) -> None:
        """Collective: check the hash of the weights of each process that both have."""
        run = self._run
        report = RankReport(run.processes.group, run.processes.strategy, run.plain_model, "")
        found = report(self._state.epochs + 1, update, run.training.updater.epoch_sums, 0.0, 0.0)
        for rank, (recorded, replayed) in enumerate(zip(self._hashes[update], found.ranks, strict=False)):
            same_parts = len(found.ranks) == len(self._hashes[update]) or not (recorded.sharded or replayed.sharded)
            if same_parts:
                where = f"after epoch {self._state.epochs + 1}" + f", rank {rank}" * (len(found.ranks) > 1)
                self.checks.append(Check(update, WEIGHTS, recorded.weights, replayed.weights, where))

    def check_with_checkpoint(self) -> Iterator[Check]:
        """Collective: check weights, optimizer and averages against a checkpoint of the last update, if there is one.

        Loads it: nothing can be computed afterwards.
        """
        checkpoint = self._stored.history.folder / CHECKPOINTS / store.name_of(self.last)
        if self.last not in self._stored.later or store.problem(checkpoint):
            return
        replayed = self._fingerprints()
        restore(self._run, self._trained, checkpoint)
        recorded = self._fingerprints()
        own = next((name for name in recorded if recorded[name] != replayed.get(name)), "")
        names = process_group.exchange_texts(self._run.processes.group, own)
        name = next(filter(None, names), "")
        where = f"in checkpoint {checkpoint.name}"
        if not name:
            content = f"{len(recorded):,} equal tensors"
            yield Check(self.last, WEIGHTS, content, content, where)
        else:
            yield Check(self.last, WEIGHTS, f"its {name}", f"another {name}", where)

    def _fingerprints(self) -> dict[str, int]:
        strategy = self._run.processes.strategy
        return {name: fingerprint([strategy.local(tensor)]) for name, tensor in self._trained.by_name().items()}


def _first_from(update: int, known: Collection[int]) -> list[int]:
    """Return the first update, not before a given one, that the run has recorded, if there is one."""
    return sorted(each for each in known if each >= update)[:1]
