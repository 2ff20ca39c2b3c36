"""The training loop: epochs and their events. It knows no files, no config and no strategy."""

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import torch

from accel_train.config.plan import Plan
from accel_train.events import EpochByRank, EpochEnd, Progress, RunEnded, UpdateDone
from accel_train.rng import hash_ids
from accel_train.training.early_stopping import EarlyStopping
from accel_train.training.evaluate import Validation
from accel_train.training.freezing import Freezing
from accel_train.training.metrics import Means, means
from accel_train.training.micro_batches import MicroBatch, TrainBatches
from accel_train.training.noise_scale import WINDOW, Gradient, estimate, noise_scale
from accel_train.training.nonfinite import NonfiniteCheck
from accel_train.training.rank_report import RankReport
from accel_train.training.state import TrainingState
from accel_train.training.timing import Timing
from accel_train.training.updater import Updated, Updater


@dataclass(frozen=True)
class Training:
    """The parts of the loop."""

    plan: Plan
    batches: TrainBatches
    updater: Updater
    validation: Validation
    nonfinite: NonfiniteCheck
    early_stopping: EarlyStopping
    rank_report: RankReport | None
    log_every: int
    freezing: Freezing = field(default_factory=Freezing)

    @property
    def timing(self) -> Timing:
        """What the updates have taken."""
        return self.updater.timing


def train(
    training: Training, state: TrainingState, interrupted: Callable[[], bool]
) -> Iterator[UpdateDone | Progress | EpochByRank | EpochEnd | RunEnded]:
    """Collective: train from a state, evaluate after each epoch, and yield events.

    The consumer may checkpoint after any event, or stop iterating. If `interrupted` returns True in a validation, on
    all processes, this ends without RunEnded.
    """
    began = time.perf_counter() - state.seconds
    micro_batches = training.batches.micro_batches(state.update, training.timing)
    while (reason := training.early_stopping.reason(state)) is None and state.epochs < training.plan.epochs:
        epoch_began = time.perf_counter()
        images_per_second = yield from _train_one_epoch(training, micro_batches, state, began)
        with training.timing.span("validation"):
            training.nonfinite.check(state.update)
            by_rank = _report_ranks(training, state, images_per_second)
            found = training.validation(interrupted)
            if found is None:
                return
            _end_epoch(training, state, *found, images_per_second, epoch_began)
        state.seconds = time.perf_counter() - began
        assert state.last is not None
        yield from by_rank
        yield state.last
    yield _run_ended(state, training.timing, reason or "all epochs done", time.perf_counter() - began)


def _train_one_epoch(
    training: Training, micro_batches: Iterator[MicroBatch], state: TrainingState, began: float
) -> Generator[UpdateDone | Progress, None, float]:
    """Collective: do the remaining updates of an epoch; return images per second over all processes.

    `began` is when the run would have begun without its breaks.
    """
    plan, updater, began_at = training.plan, training.updater, state.update
    training.freezing.begin_epoch(state.epochs, updater.accelerator, updater.strategy, updater.model)
    end = (state.epochs + 1) * plan.updates_per_epoch
    training.timing.start()
    while state.update < end:
        logged = (state.update + 1) % training.log_every == 0
        updated = updater.update(micro_batches, state.update, measured=logged)
        state.update += 1
        if logged:
            done = progress(training, state, updated)
            _remember_gradient(training, state, done)
            yield done
            training.nonfinite.check(state.update)
        state.seconds = time.perf_counter() - began
        yield UpdateDone(state.epochs + 1, state.update)
    if updater.accelerator.device.type != "cpu":
        torch.accelerator.synchronize()  # wait for queued GPU work so that it counts as training time
    return (state.update - began_at) * plan.global_batch / training.timing.stop()


def progress(training: Training, state: TrainingState, updated: Updated) -> Progress:
    """Collective: return the numbers of the last update, which was measured.

    Loss and sample indices are those of this replica, all others over all.
    """
    assert updated.norm is not None
    updater, norm = training.updater, float(updated.norm)
    none = updater.epoch_sums.tensor.new_zeros(())
    loss = torch.stack(updated.losses).mean().to(none) if updated.losses else none
    return Progress(
        epoch=state.epochs + 1,
        update=state.update,
        lr=training.plan.learning_rate(state.update - 1),
        local_loss=float(updater.strategy.from_last_stage(loss)),
        gradient_norm=norm,
        local_ids_hash=f"{hash_ids(0, torch.cat(updated.sample_indices)).sum().item() % 2**64:016x}",
        **_measured_gradient(training, norm),
    )


def _measured_gradient(training: Training, norm: float) -> dict[str, float]:
    """Collective: return what the micro-batches of a measured update tell of the gradient, if it is finite."""
    if training.updater.norms is None:
        return {}
    small, plan = training.updater.norms.mean_square(), training.plan
    found = estimate(small, norm**2, plan.batch_size, plan.global_batch)
    return {"gradient_variance": found.variance, "gradient_square": found.square} if 0 < small < math.inf else {}


def _remember_gradient(training: Training, state: TrainingState, done: Progress) -> None:
    if done.gradient_variance is not None and done.gradient_square is not None:
        share = Gradient(done.gradient_variance, done.gradient_square).share(training.plan.batch_size)
        state.gradient_shares = [*state.gradient_shares, share][-WINDOW:]


def _report_ranks(training: Training, state: TrainingState, images_per_second: float) -> list[EpochByRank]:
    """Collective: report the epoch that the state is about to end, if that is wanted."""
    report, share = training.rank_report, len(training.updater.own) / training.plan.micro_batches
    own_speed, wait_share = images_per_second * share, training.timing.wait_share
    sums = training.updater.epoch_sums
    return [report(state.epochs + 1, state.update, sums, own_speed, wait_share)] if report else []


def _end_epoch(
    training: Training, state: TrainingState, found: Means, ema: Means | None, images_per_second: float, began: float
) -> None:
    """Collective: advance the state past an epoch; `found` is the validation of the weights, `ema` that of the EMA."""
    sums = training.updater.accelerator.reduce(training.updater.epoch_sums.tensor, "sum")
    trained = means(sums) if sums.any() else None
    best_before = state.best.selection_accuracy if state.best else None
    accuracy = (ema or found).accuracy
    noise = noise_scale(state.gradient_shares, training.plan.batch_size)
    state.last = EpochEnd(
        epoch=state.epochs + 1,
        update=state.update,
        train_loss=trained.loss if trained else None,
        train_accuracy=trained.accuracy if trained else None,
        val_loss=found.loss,
        val_accuracy=found.accuracy,
        ema_val_loss=ema.loss if ema else None,
        ema_val_accuracy=ema.accuracy if ema else None,
        val_balanced_accuracy=found.balanced_accuracy,
        ema_val_balanced_accuracy=ema.balanced_accuracy if ema else None,
        noise_scale=noise.value if noise else None,
        noise_scale_low=noise.low if noise else None,
        noise_scale_high=noise.high if noise else None,
        lr=training.plan.learning_rate(state.update - 1),
        images_per_second=images_per_second,
        seconds=time.perf_counter() - began,
        best=best_before is None or accuracy > best_before,
    )
    if state.last.best:
        state.best = state.last
    state.epochs += 1
    training.updater.epoch_sums.clear()


def _run_ended(state: TrainingState, timing: Timing, reason: str, seconds: float) -> RunEnded:
    assert state.best is not None
    assert state.last is not None
    return RunEnded(
        reason=reason,
        epochs=state.last.epoch,
        updates=state.update,
        train_accuracy=state.last.train_accuracy,
        val_accuracy=state.last.selection_accuracy,
        best_epoch=state.best.epoch,
        best_val_accuracy=state.best.selection_accuracy,
        images_per_second=timing.images_per_second,
        data_wait_share=timing.wait_share,
        save_share=timing.share("save"),
        watch_share=timing.share("watch"),
        seconds_to_first_update=timing.seconds_to_first_update,
        gpu_memory_bytes=torch.cuda.max_memory_allocated(),
        seconds=seconds,
    )
