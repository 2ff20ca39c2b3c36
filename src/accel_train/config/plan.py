"""The numbers of a run: batches, updates and learning rates, from its config and the number of processes."""

import math
from dataclasses import dataclass, replace
from typing import Self

from accel_train.config.lr_schedule import SCALINGS, Schedule
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig
from accel_train.errors import UserError

_ADAM_BETAS = (0.9, 0.999)
_ADAM_EPS = 1e-8
_MAX_ADAM_RATIO = 0.5  # of batch ratio × (1 - beta1): near 1 the sqrt rule breaks down
_COLD_START = 0.01  # fraction of the peak at which warmup starts if scaling did not raise it


@dataclass(frozen=True)
class Plan:
    """All numbers that follow from the config and the number of processes."""

    processes: int
    batch_size: int
    """Images per process per micro-batch."""
    accumulate: int
    """Micro-batches per process per update."""
    global_batch: int
    """Images per update, all processes."""
    epochs: int
    updates_per_epoch: int
    images_dropped: int
    """Images of the incomplete last batch of an epoch."""
    learning_rate: Schedule
    betas: tuple[float, float]
    eps: float

    @property
    def total_updates(self) -> int:
        """Updates of the whole run."""
        return self.epochs * self.updates_per_epoch

    @property
    def micro_batches(self) -> int:
        """Micro-batches per update, all processes."""
        return self.global_batch // self.batch_size

    def with_batch_size(self, batch_size: int) -> Self:
        """Return the plan with a batch size that divides each process's share of the global batch, which stays."""
        accumulate, rest = divmod(self.global_batch, batch_size * self.processes)
        assert rest == 0
        return replace(self, batch_size=batch_size, accumulate=accumulate)


def make_plan(config: ResolvedConfig, processes: int, train_images: int, batch_size: int | None = None) -> Plan:
    """Plan a run; with a `batch_size`, ignore the config's and its `accumulate`.

    Raises:
        UserError: the batch sizes do not fit each other, the processes or the data.
    """
    accumulate = config.accumulate if batch_size is None else None
    batch_size = batch_size or config.batch_size
    global_batch, accumulate = _batches(config.global_batch_size, batch_size, accumulate, processes)
    updates_per_epoch, images_dropped = divmod(train_images, global_batch)
    if updates_per_epoch == 0:
        raise UserError(
            f"the global batch of {global_batch:,} images is larger than the {train_images:,} training images",
            f"choose --batch-size, --accumulate or processes so that their product is at most {train_images}",
        )
    betas, eps = _adam(config, global_batch)
    return Plan(
        processes=processes,
        batch_size=batch_size,
        accumulate=accumulate,
        global_batch=global_batch,
        epochs=config.epochs,
        updates_per_epoch=updates_per_epoch,
        images_dropped=images_dropped,
        learning_rate=_learning_rate(config, global_batch, updates_per_epoch),
        betas=betas,
        eps=eps,
    )


def _batches(global_batch_size: int | None, batch_size: int, accumulate: int | None, processes: int) -> tuple[int, int]:
    """Return images per update and micro-batches per process."""
    if global_batch_size is None:
        accumulate = accumulate or 1
        return batch_size * processes * accumulate, accumulate
    micro_batches, rest = divmod(global_batch_size, batch_size)
    if rest or micro_batches == 0:
        raise UserError(
            f"--global-batch-size {global_batch_size} is not a multiple of --batch-size {batch_size}",
            f"choose a multiple, such as {max(1, round(global_batch_size / batch_size)) * batch_size}",
        )
    per_process, rest = divmod(micro_batches, processes)
    if rest:
        fitting = ", ".join(str(p) for p in range(1, micro_batches + 1) if micro_batches % p == 0)
        raise UserError(
            f"{processes} processes cannot share {micro_batches} micro-batches of {batch_size} images evenly",
            f"with --global-batch-size {global_batch_size} and --batch-size {batch_size} "
            f"the number of processes can be {fitting}",
        )
    if accumulate not in (None, per_process):
        raise UserError(
            f"--accumulate {accumulate} × {processes} processes × --batch-size {batch_size} "
            f"is not --global-batch-size {global_batch_size}",
            f"leave out --accumulate: it follows from the others ({per_process})",
        )
    return global_batch_size, per_process


def _learning_rate(config: ResolvedConfig, global_batch: int, updates_per_epoch: int) -> Schedule:
    if config.warmup_epochs >= config.epochs:
        raise UserError(
            f"--warmup-epochs {config.warmup_epochs:g} must be less than --epochs {config.epochs}",
            "give fewer warmup epochs, or more epochs",
        )
    for milestone in config.milestones or ():
        if not 0 < milestone < config.epochs:
            raise UserError(
                f"--milestones {milestone:g} is not within the {config.epochs} epochs of the run",
                "give epochs after 0 and before the last",
            )
    ratio = global_batch / (config.lr_base_batch or global_batch)
    peak = config.lr * SCALINGS[config.lr_scaling](ratio)
    # Goyal et al. 2017, §2.2: if scaling raised the learning rate, warmup starts from the unscaled one.
    warmup_from = config.lr if peak > config.lr else peak * _COLD_START
    return Schedule(
        rule=config.schedule,
        peak=peak,
        total_updates=config.epochs * updates_per_epoch,
        warmup_updates=round(config.warmup_epochs * updates_per_epoch),
        warmup_from=warmup_from if config.warmup_from is None else config.warmup_from,
        milestones=tuple(round(epoch * updates_per_epoch) for epoch in config.milestones or ()),
        gamma=config.gamma or 1.0,
    )


def _adam(config: ResolvedConfig, global_batch: int) -> tuple[tuple[float, float], float]:
    """Scale Adam's betas and epsilon with the global batch (Malladi et al. 2022, square root scaling rule)."""
    if not OPTIMIZERS[config.optimizer].scales_betas or config.lr_scaling != "sqrt":
        return _ADAM_BETAS, _ADAM_EPS
    base = config.lr_base_batch or global_batch
    ratio = global_batch / base
    if ratio * (1 - _ADAM_BETAS[0]) > _MAX_ADAM_RATIO:
        limit = round(base * _MAX_ADAM_RATIO / (1 - _ADAM_BETAS[0]))
        raise UserError(
            f"--lr-scaling sqrt cannot scale {config.optimizer} from {base} to {global_batch} images per update",
            f"use at most {limit} images per update, --lr-scaling none, or a larger --lr-base-batch",
        )
    beta1, beta2 = (1 - ratio * (1 - beta) for beta in _ADAM_BETAS)
    return (beta1, beta2), _ADAM_EPS / math.sqrt(ratio)
