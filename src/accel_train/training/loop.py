"""The training loop: yields facts, knows neither devices nor strategies nor how its facts are shown.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

import time
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.data.loader import batches
from accel_train.data.sampler import PADDING, UpdateSampler
from accel_train.data.transforms import ImageTransform
from accel_train.data.worker_batches import Batch
from accel_train.events import EpochEnd, Progress, RunEnded, UpdateDone
from accel_train.rng import hash_ids, make_key, seed_libraries
from accel_train.training.batch_norm import RunningStatistics
from accel_train.training.early_stopping import Stopping
from accel_train.training.ema import WeightAverage
from accel_train.training.gradients import MeanGradient, gradient_norm, refuse_unused
from accel_train.training.metrics import Means, Sums, means, split_outputs, training_loss
from accel_train.training.nonfinite import Divergence
from accel_train.training.state import Position
from accel_train.training.timing import Meter


@dataclass(frozen=True)
class Task:
    """What is trained, on what, by which plan; model and loaders as Accelerate prepared them."""

    accelerator: Accelerator
    model: nn.Module
    optimizer: torch.optim.Optimizer
    step: Callable[[], Any]
    """Changes the weights by their gradients."""
    train_loader: Any
    val_loader: Any
    sampler: UpdateSampler
    """Of `train_loader`."""
    transform: ImageTransform
    statistics: RunningStatistics
    gradient: MeanGradient
    average: WeightAverage | None
    divergence: Divergence
    plan: Plan
    epoch_sums: Sums
    """Over this process's images of the epoch begun."""
    seed: int
    label_smoothing: float
    clip_norm: float | None
    log_every: int


@dataclass(frozen=True)
class Waiting:
    """What the loop calls where it may wait for other processes."""

    tick: Callable[[], None]
    """Tells the others that this process has come so far."""
    interrupted: Callable[[], bool]
    """Collective: whether to break off a validation."""


def train(
    task: Task, stopping: Stopping, position: Position, meter: Meter, waiting: Waiting
) -> Iterator[UpdateDone | Progress | EpochEnd | RunEnded]:
    """Collective: train from a position on, evaluating after each epoch, and yield what happens.

    Whoever takes an event may save the run as it then is, or ask for no more. Ends without RunEnded if a
    validation was interrupted.
    """
    began = time.perf_counter() - position.seconds
    task.sampler.first_update = position.update
    micro_batches = _micro_batches(task, meter)
    while (reason := stopping.reason(position)) is None and position.epochs < task.plan.epochs:
        epoch_began = time.perf_counter()
        pace = yield from _train_one_epoch(task, micro_batches, position, meter, waiting)
        with meter.mark("validation"):
            if not _validate(task, position, waiting, pace, epoch_began):
                return
        position.seconds = time.perf_counter() - began
        assert position.last is not None
        yield position.last
    assert position.best is not None
    assert position.last is not None
    yield RunEnded(
        reason=reason or "all epochs done",
        epochs=position.last.epoch,
        updates=position.update,
        train_accuracy=position.last.train_accuracy,
        val_accuracy=position.last.judged_accuracy,
        best_epoch=position.best.epoch,
        best_val_accuracy=position.best.judged_accuracy,
        images_per_second=meter.images_per_second,
        data_wait_share=meter.wait_share,
        save_share=meter.share("save"),
        watch_share=meter.share("watch"),
        seconds_to_first_update=meter.seconds_to_first_update,
        gpu_memory_bytes=torch.cuda.max_memory_allocated(),
        seconds=time.perf_counter() - began,
    )


def _train_one_epoch(
    task: Task, micro_batches: Iterator[Batch], position: Position, meter: Meter, waiting: Waiting
) -> Generator[UpdateDone | Progress, None, float]:
    """Collective: make the rest of an epoch's updates; return images per second over all processes."""
    plan, began_at = task.plan, position.update
    task.model.train()
    updates_left = (position.epochs + 1) * plan.updates_per_epoch - position.update
    losses: list[Tensor] = []
    tickets: list[Tensor] = []
    meter.start()
    for number, batch in enumerate(islice(micro_batches, updates_left * plan.accumulate)):
        micro_batch = number % plan.accumulate
        tickets.append(batch.tickets_B)
        losses.append(_add_gradient(task, batch, position.update, micro_batch, waiting, meter))
        if micro_batch < plan.accumulate - 1:
            continue
        with meter.mark("optimizer"):
            norm = _update(task, position.update)
        meter.count(plan.global_batch)
        position.update += 1
        if position.update % task.log_every == 0:
            yield _progress(task, position, torch.stack(losses).mean(), norm, torch.cat(tickets))
            task.divergence.check(position.update, plan.learning_rate(position.update - 1))
        losses.clear()
        tickets.clear()
        yield UpdateDone(position.epochs + 1, position.update)
    if task.accelerator.device.type != "cpu":
        torch.accelerator.synchronize()  # what is under way is training time
    return (position.update - began_at) * plan.global_batch / meter.stop()


def _micro_batches(task: Task, meter: Meter) -> Iterator[Batch]:
    """Yield this process's micro-batches as the model takes them, of which one read brings one or several."""
    for read in meter.waiting_for(batches(task.train_loader)):
        images_BCHW = task.transform(read.images_BCHW, read.tickets_B)
        count = len(images_BCHW) // task.plan.batch_size
        parts = (tensor.chunk(count) for tensor in (images_BCHW, read.labels_B, read.tickets_B))
        for images_part_BCHW, *rest in zip(*parts, strict=True):
            yield Batch(images_part_BCHW.detach(), *rest)  # by itself: a model may write into its images


def evaluate(
    accelerator: Accelerator,
    model: nn.Module,
    loader: Any,
    transform: ImageTransform,
    interrupted: Callable[[], bool] = lambda: False,
) -> Means | None:
    """Collective: return means over all images of a loader, each counted once whatever the number of processes.

    None if `interrupted` said so, on all processes alike.
    """
    model.eval()
    sums = Sums(accelerator.device)
    with torch.no_grad():
        for batch in batches(loader):
            if interrupted():
                return None
            logits_BK, _, _ = split_outputs(model(transform(batch.images_BCHW)))
            sums.add_images(logits_BK, batch.labels_B, batch.tickets_B != PADDING)
    return means(accelerator.reduce(sums.tensor, "sum"))


def _validate(task: Task, position: Position, waiting: Waiting, pace: float, began: float) -> bool:
    """Collective: evaluate at the end of an epoch and move the position past it, unless interrupted."""
    task.divergence.check(position.update, task.plan.learning_rate(position.update - 1))
    sums = task.accelerator.reduce(task.epoch_sums.tensor, "sum")
    trained = means(sums) if sums.any() else None
    found: list[Means] = []
    contexts: list[AbstractContextManager[None]] = [nullcontext()]
    if task.average is not None:
        contexts.append(task.average.in_place_of_weights())
    for weights in contexts:
        with weights:
            one = evaluate(task.accelerator, task.model, task.val_loader, task.transform, waiting.interrupted)
        if one is None:
            return False
        found.append(one)
    end = EpochEnd(
        epoch=position.epochs + 1,
        update=position.update,
        train_loss=trained.loss if trained else None,
        train_accuracy=trained.accuracy if trained else None,
        val_loss=found[0].loss,
        val_accuracy=found[0].accuracy,
        ema_val_loss=found[-1].loss if task.average else None,
        ema_val_accuracy=found[-1].accuracy if task.average else None,
        lr=task.plan.learning_rate(position.update - 1),
        images_per_second=pace,
        seconds=time.perf_counter() - began,
        best=position.best is None or found[-1].accuracy > position.best.judged_accuracy,
    )
    position.last = end
    if end.best:
        position.best = end
    position.epochs += 1
    task.epoch_sums.tensor.zero_()
    return True


def _add_gradient(task: Task, batch: Batch, update: int, micro_batch: int, waiting: Waiting, meter: Meter) -> Tensor:
    """Add the gradient of one virtual worker and return its loss.

    At the update's last one the processes exchange what they have.
    """
    plan = task.plan
    if micro_batch == 0:
        task.optimizer.zero_grad()  # not sooner: until here one may ask for the gradient's norm
    virtual_worker = task.accelerator.process_index * plan.accumulate + micro_batch
    seed_libraries(make_key(task.seed, "update", update, virtual_worker))
    task.statistics.begin_micro_batch()
    last = micro_batch == plan.accumulate - 1
    with task.gradient.backward_context(last):
        with meter.mark("forward"):
            loss, logits_BK = training_loss(task.model(batch.images_BCHW), batch.labels_B, task.label_smoothing)
        waiting.tick()
        with meter.mark("backward"):
            task.accelerator.backward(loss)
    if last and update % plan.updates_per_epoch == 0:
        refuse_unused(task.model)
    task.gradient.add()
    task.epoch_sums.add_batch(loss, logits_BK, batch.labels_B)
    return loss.detach()


def _update(task: Task, update: int) -> Tensor | None:
    """Collective: change the weights by the gradient of all virtual workers; return its norm if it was clipped."""
    task.gradient.finish()
    for group in task.optimizer.param_groups:
        group["lr"] = task.plan.learning_rate(update)
    norm: Tensor | None = None
    if task.clip_norm is not None:
        norm = task.accelerator.clip_grad_norm_(task.model.parameters(), task.clip_norm)
    task.step()
    if task.average is not None:
        task.average.update()
    return norm


def _progress(task: Task, position: Position, loss: Tensor, norm: Tensor | None, tickets: Tensor) -> Progress:
    """Collective: return the numbers of the update just made, of which this process has these."""
    if norm is None:
        norm = gradient_norm(task.model.parameters())
    return Progress(
        epoch=position.epochs + 1,
        update=position.update,
        lr=task.plan.learning_rate(position.update - 1),
        local_loss=float(loss),
        gradient_norm=float(norm),
        local_ids_hash=f"{hash_ids(0, tickets).sum().item() % 2**64:016x}",
    )
