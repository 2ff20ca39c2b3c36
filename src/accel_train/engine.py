"""The training loop: yields facts, knows neither devices nor strategies nor how its facts are shown.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.data.augment import ImageTransform
from accel_train.data.loader import Batch, batches
from accel_train.data.order import PADDING
from accel_train.errors import UserError
from accel_train.events import EpochEnd, Progress, RunEnded, UpdateDone
from accel_train.meter import Meter
from accel_train.metrics import Means, Sums, means, split_outputs, training_loss
from accel_train.plan import Plan
from accel_train.random_keys import hash_ids, make_key, seed_libraries
from accel_train.running_statistics import RunningStatistics


@dataclass(frozen=True)
class Task:
    """What is trained, on what, by which plan; model, optimizer and loaders as Accelerate prepared them."""

    accelerator: Accelerator
    model: nn.Module
    optimizer: Any
    train_loader: Any
    val_loader: Any
    transform: ImageTransform
    statistics: RunningStatistics
    plan: Plan
    seed: int
    label_smoothing: float
    clip_norm: float | None
    log_every: int


@dataclass(frozen=True)
class Stopping:
    """When to stop before the last epoch; all processes find the same, because all know the same accuracy."""

    target_accuracy: float | None
    patience: int | None

    def reason(self, accuracy: float, epochs_without_better: int) -> str | None:
        """Return why to stop now, or None to go on."""
        if self.target_accuracy is not None and accuracy >= self.target_accuracy:
            return f"target accuracy {self.target_accuracy:g} reached"
        if self.patience is not None and epochs_without_better >= self.patience:
            return f"no better epoch for {epochs_without_better}"
        return None


def train(task: Task, stopping: Stopping) -> Iterator[UpdateDone | Progress | EpochEnd | RunEnded]:
    """Collective: train epoch by epoch, evaluating after each, and yield what happens."""
    meter = Meter()
    began = time.perf_counter()
    best = None
    for epoch in range(task.plan.epochs):
        last = yield from _train_and_evaluate(task, epoch, meter, best)
        if best is None or last.best:
            best = last
        yield last
        reason = stopping.reason(last.val_accuracy, last.epoch - best.epoch)
        if reason:
            break
    assert best is not None
    yield RunEnded(
        reason=reason or "all epochs done",
        epochs=last.epoch,
        updates=last.update,
        train_accuracy=last.train_accuracy,
        val_accuracy=last.val_accuracy,
        best_epoch=best.epoch,
        best_val_accuracy=best.val_accuracy,
        images_per_second=meter.images_per_second,
        data_wait_share=meter.wait_share,
        seconds=time.perf_counter() - began,
    )


def _train_and_evaluate(
    task: Task, epoch: int, meter: Meter, best: EpochEnd | None
) -> Generator[UpdateDone | Progress, None, EpochEnd]:
    began = time.perf_counter()
    meter.start()
    trained = yield from train_one_epoch(task, epoch, meter)
    seconds = meter.stop()
    validated = evaluate(task.accelerator, task.model, task.val_loader, task.transform)
    updates = (epoch + 1) * task.plan.updates_per_epoch
    return EpochEnd(
        epoch=epoch + 1,
        update=updates,
        train_loss=trained.loss,
        train_accuracy=trained.accuracy,
        val_loss=validated.loss,
        val_accuracy=validated.accuracy,
        lr=task.plan.learning_rate(updates - 1),
        images_per_second=trained.images / seconds,
        seconds=time.perf_counter() - began,
        best=best is None or validated.accuracy > best.val_accuracy,
    )


def train_one_epoch(task: Task, epoch: int, meter: Meter) -> Generator[UpdateDone | Progress, None, Means]:
    """Collective: make the updates of an epoch, counted from 0; return means over the images of all processes."""
    plan, accelerator = task.plan, task.accelerator
    task.model.train()
    task.train_loader.set_epoch(epoch)
    epoch_sums, update_sums = Sums(accelerator.device), Sums(accelerator.device)
    ids_hash = torch.zeros((), dtype=torch.int64, device=accelerator.device)
    first = epoch * plan.updates_per_epoch * plan.accumulate
    for position, batch in enumerate(meter.waiting_for(batches(task.train_loader)), start=first):
        update, micro_batch = divmod(position, plan.accumulate)
        _add_gradient(task, batch, update, micro_batch, update_sums)
        ids_hash += hash_ids(0, batch.tickets_B).sum()
        if micro_batch < plan.accumulate - 1:
            continue
        _update(task, update)
        meter.count(plan.global_batch)
        epoch_sums.tensor += update_sums.tensor
        if (update + 1) % task.log_every == 0:
            local_hash = f"{ids_hash.item() % 2**64:016x}"
            local_loss = means(update_sums.tensor).loss
            yield Progress(epoch + 1, update + 1, plan.learning_rate(update), local_loss, local_hash)
            ids_hash.zero_()
        update_sums.tensor.zero_()
        yield UpdateDone(epoch + 1, update + 1)
    return means(accelerator.reduce(epoch_sums.tensor, "sum"))


def evaluate(accelerator: Accelerator, model: nn.Module, loader: Any, transform: ImageTransform) -> Means:
    """Collective: return means over all images of a loader, each counted once whatever the number of processes."""
    model.eval()
    sums = Sums(accelerator.device)
    with torch.no_grad():
        for batch in batches(loader):
            logits_BK, _, _ = split_outputs(model(transform(batch.images_BCHW)))
            sums.add_images(logits_BK, batch.labels_B, batch.tickets_B != PADDING)
    return means(accelerator.reduce(sums.tensor, "sum"))


def _add_gradient(task: Task, batch: Batch, update: int, micro_batch: int, sums: Sums) -> None:
    """Add the gradient of one virtual worker; at the update's last one the processes exchange what they have."""
    plan, accelerator = task.plan, task.accelerator
    virtual_worker = accelerator.process_index * plan.accumulate + micro_batch
    last = micro_batch == plan.accumulate - 1
    seed_libraries(make_key(task.seed, "update", update, virtual_worker))
    images_BCHW = task.transform(batch.images_BCHW, batch.tickets_B)
    task.statistics.begin_micro_batch()
    with nullcontext() if last else accelerator.no_sync(task.model):
        loss, logits_BK = training_loss(task.model(images_BCHW), batch.labels_B, task.label_smoothing)
        accelerator.backward(loss)
    task.statistics.end_micro_batch()
    sums.add_batch(loss, logits_BK, batch.labels_B)


def _update(task: Task, update: int) -> None:
    """Collective: change the weights by the gradient of all virtual workers."""
    if update == 0:
        _refuse_unused(task.model)
    if task.plan.accumulate > 1:
        # Dividing here and not the loss keeps each virtual worker's backward pass the same bits wherever it runs.
        for parameter in task.model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(task.plan.accumulate)
    for group in task.optimizer.param_groups:
        group["lr"] = task.plan.learning_rate(update)
    if task.clip_norm is not None:
        task.accelerator.clip_grad_norm_(task.model.parameters(), task.clip_norm)
    task.optimizer.step()
    task.optimizer.zero_grad()
    change: Tensor = task.statistics.change
    if change.numel():
        change = task.accelerator.reduce(change, "sum")
    task.statistics.end_update(change, task.plan.virtual_workers)


def _refuse_unused(model: nn.Module) -> None:
    """Processes would wait for ever for the gradient of a parameter that the loss does not depend on."""
    unused = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    if unused:
        more = f" and {len(unused) - 1} more" if len(unused) > 1 else ""
        raise UserError(
            f"the loss does not depend on the model's parameter {unused[0].removeprefix('module.')}{more}",
            "remove the unused part, or freeze it with requires_grad_(False)",
        )
