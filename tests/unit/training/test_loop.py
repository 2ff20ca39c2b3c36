"""The loop yields its events in order, resumes in mid-epoch, and ends for the right reason."""

from collections.abc import Iterator
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.plans import small_plan
from helpers.run_events import epoch_end
from torch import Tensor, nn

from accel_train.distributed.strategies.ddp import DDP
from accel_train.events import EpochByRank, EpochEnd, Event, Progress, RankEpoch, RunEnded, UpdateDone
from accel_train.rng import hash_ids
from accel_train.training.early_stopping import EarlyStopping
from accel_train.training.loop import Training, train
from accel_train.training.loss import Targets
from accel_train.training.metrics import Means, Sums
from accel_train.training.micro_batches import MicroBatch
from accel_train.training.nonfinite import Diverged
from accel_train.training.state import TrainingState
from accel_train.training.timing import Timing
from accel_train.training.updater import Updated

CPU = torch.device("cpu")


class Parts:
    """Stand-ins for the parts of the loop, which record their calls and give scripted results."""

    def __init__(self, *accuracies: float, ema: bool = False, accumulate: int = 1, log_every: int = 2) -> None:
        self.calls: list[str] = []
        self.accuracies = list(accuracies)
        self.ema = ema
        self.net = nn.Linear(1, 1)
        self.sums = Sums(CPU)
        self.timing = Timing()
        self.plan = small_plan(accumulate=accumulate)
        self.log_every = log_every
        self.norms: Any = None

    def training(self, target_accuracy: float | None = None, patience: int | None = None) -> Training:
        parts: dict[str, Any] = {
            "plan": self.plan,
            "batches": SimpleNamespace(micro_batches=self.micro_batches),
            "updater": SimpleNamespace(
                model=self.net,
                accelerator=SimpleNamespace(device=CPU, reduce=lambda tensor, reduction: tensor),
                epoch_sums=self.sums,
                own=self.plan.blocks[0],
                norms=self.norms,
                strategy=DDP(),
                timing=self.timing,
                update=self.update,
            ),
            "validation": self.validation,
            "nonfinite": SimpleNamespace(check=lambda update: self.calls.append(f"check {update}")),
            "early_stopping": EarlyStopping(target_accuracy, patience),
            "rank_report": self.report,
            "log_every": self.log_every,
        }
        return Training(**parts)

    def micro_batches(self, first_update: int, timing: Timing) -> Iterator[MicroBatch]:
        for number in range(first_update * self.plan.accumulate, self.plan.total_updates * self.plan.accumulate):
            targets = Targets(torch.zeros(2, dtype=torch.int64))
            yield MicroBatch(torch.zeros(2, 1), targets, torch.tensor([2 * number, 2 * number + 1]))

    def update(self, micro_batches: Iterator[MicroBatch], update: int, *, measured: bool) -> Updated:
        assert self.net.training
        assert measured == ((update + 1) % self.log_every == 0)
        losses: list[Tensor] = []
        sample_indices: list[Tensor] = []
        for m, batch in enumerate(islice(micro_batches, self.plan.accumulate)):
            self.calls.append(f"micro-batch {update}.{m}")
            losses.append(torch.tensor(float(1 + update + m)))
            sample_indices.append(batch.sample_indices_B)
            self.sums.add_batch(losses[-1], torch.tensor([[1.0, 0.0]] * 2), batch.targets.labels_B)
        self.calls.append(f"finish {update}")
        for parameter in self.net.parameters():
            parameter.grad = torch.full_like(parameter, 3.0 + update)
        return Updated(losses, sample_indices, DDP().gradient_norm(self.net.parameters()))

    def report(self, epoch: int, update: int, sums: Sums, images_per_second: float, waiting: float) -> EpochByRank:
        loss, _, _, images = sums.since_load.tolist()
        mean = loss / images if images else None
        own = RankEpoch("cpu", mean, int(images), images_per_second, weights="0", sharded=False)
        return EpochByRank(epoch, update, (own,))

    def validation(self, interrupted: Any) -> tuple[Means, Means | None] | None:
        self.calls.append("validation")
        self.net.eval()
        if interrupted():
            return None
        accuracy = self.accuracies.pop(0)
        means = Means(0.5, accuracy, 1.0, 10, balanced_accuracy=0.25)
        return (Means(0.75, 0.0, 1.0, 10, balanced_accuracy=0.125), means) if self.ema else (means, None)


def never() -> bool:
    return False


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_events_of_a_run_come_in_order() -> None:
    parts, state = Parts(0.5, 0.75), TrainingState()
    events = list(train(parts.training(), state, never))
    epoch = ["UpdateDone", "Progress", "UpdateDone", "EpochByRank", "EpochEnd"]
    assert kinds(events) == [*epoch, *epoch, "RunEnded"]
    assert [event for event in events if isinstance(event, UpdateDone)] == [
        UpdateDone(1, 1),
        UpdateDone(1, 2),
        UpdateDone(2, 3),
        UpdateDone(2, 4),
    ]
    assert parts.calls == [
        *("micro-batch 0.0", "finish 0", "micro-batch 1.0", "finish 1", "check 2", "check 2", "validation"),
        *("micro-batch 2.0", "finish 2", "micro-batch 3.0", "finish 3", "check 4", "check 4", "validation"),
    ]
    first, second = (event for event in events if isinstance(event, EpochEnd))
    assert (first.train_loss, second.train_loss) == (1.5, 3.5)
    assert (first.train_accuracy, first.val_loss, first.val_accuracy, first.lr) == (1.0, 0.5, 0.5, 0.375)
    assert (first.val_balanced_accuracy, first.ema_val_balanced_accuracy) == (0.25, None)
    assert (first.best, second.best, state.last, state.best) == (True, True, second, second)
    ended = events[-1]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.epochs, ended.updates, ended.best_epoch) == ("all epochs done", 2, 4, 2)
    assert (ended.val_accuracy, ended.best_val_accuracy) == (0.75, 0.75)
    assert (state.update, state.epochs) == (4, 2)


def test_progress_describes_the_last_update() -> None:
    parts = Parts(0.5, 0.5, accumulate=3)
    progress = next(event for event in train(parts.training(), TrainingState(), never) if isinstance(event, Progress))
    indices = torch.arange(6, 12)  # of the second update
    assert (progress.epoch, progress.update, progress.lr) == (1, 2, 0.375)
    assert progress.local_loss == (2 + 3 + 4) / 3
    assert progress.gradient_norm == pytest.approx((2 * 4.0**2) ** 0.5)
    assert progress.local_ids_hash == f"{hash_ids(0, indices).sum().item() % 2**64:016x}"


def test_resumes_in_mid_epoch() -> None:
    parts, state = Parts(0.75), TrainingState(update=3, epochs=1, best=epoch_end(1), last=epoch_end(1))
    events = list(train(parts.training(), state, never))
    assert kinds(events) == ["Progress", "UpdateDone", "EpochByRank", "EpochEnd", "RunEnded"]
    assert parts.calls[0] == "micro-batch 3.0"
    assert not state.last.best  # the stored epoch was better
    assert events[-1].best_val_accuracy == epoch_end(1).val_accuracy


def test_time_of_an_unfinished_epoch_is_counted() -> None:
    state = TrainingState(seconds=100.0)
    events = train(Parts(0.5, 0.75).training(), state, never)
    next(event for event in events if isinstance(event, UpdateDone))
    assert 100.0 < state.seconds < 110.0  # a run that is stopped here has taken that long


def test_resumes_before_the_validation_of_an_interrupted_epoch() -> None:
    parts, state = Parts(0.75), TrainingState(update=4, epochs=1, best=epoch_end(1), last=epoch_end(1))
    assert kinds(list(train(parts.training(), state, never))) == ["EpochByRank", "EpochEnd", "RunEnded"]
    assert state.last.train_loss is None  # the sums are stored elsewhere


def test_finished_run_ends_at_once() -> None:
    state = TrainingState(update=4, epochs=2, best=epoch_end(1), last=epoch_end(2))
    parts = Parts()
    assert kinds(list(train(parts.training(), state, never))) == ["RunEnded"]
    assert parts.calls == []


def test_interrupted_validation_ends_without_result() -> None:
    parts, state = Parts(0.5), TrainingState()
    events = list(train(parts.training(), state, lambda: True))
    assert kinds(events) == ["UpdateDone", "Progress", "UpdateDone"]
    assert (state.update, state.epochs, state.last) == (2, 0, None)
    assert parts.sums.tensor[3] == 4  # kept for when the epoch is validated again


def test_stops_early_and_reports_the_reason() -> None:
    parts = Parts(0.9)
    *_, ended = train(parts.training(target_accuracy=0.9), TrainingState(), never)
    assert (ended.reason, ended.epochs) == ("target accuracy 0.9 reached", 1)
    parts = Parts(0.9, 0.8)
    *_, ended = train(parts.training(patience=1), TrainingState(), never)
    assert (ended.reason, ended.epochs, ended.best_epoch, ended.val_accuracy) == ("no better epoch for 1", 2, 1, 0.8)


def test_ema_is_used_to_pick_the_best_epoch() -> None:
    parts, state = Parts(0.9, 0.8, ema=True), TrainingState()
    events = list(train(parts.training(), state, never))
    first, second = (event for event in events if isinstance(event, EpochEnd))
    assert (first.val_accuracy, first.ema_val_loss, first.ema_val_accuracy) == (0.0, 0.5, 0.9)
    assert (first.val_balanced_accuracy, first.ema_val_balanced_accuracy) == (0.125, 0.25)
    assert (first.best, second.best, state.best) == (True, False, first)
    assert events[-1].best_val_accuracy == 0.9


def test_divergence_is_reported_after_the_progress_record() -> None:
    parts = Parts(0.5)
    training = parts.training()

    def diverge(update: int) -> None:
        raise Diverged("not finite", "lower --lr")

    training.nonfinite.check = diverge  # type: ignore[method-assign]
    events = train(training, TrainingState(), never)
    assert kinds([next(events), next(events)]) == ["UpdateDone", "Progress"]
    with pytest.raises(Diverged):
        next(events)
