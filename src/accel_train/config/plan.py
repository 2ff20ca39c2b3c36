"""The arithmetic of a run: batches, updates and learning rates, from its config and process count."""

import math
from dataclasses import dataclass

from accel_train.config.lr_schedule import SCALINGS, Schedule
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError

_ADAM_BETAS = (0.9, 0.999)
_ADAM_EPS = 1e-8
_ADAM_REACH = 0.5  # of batch ratio × (1 - beta1); the rule breaks down as that nears 1
_COLD_START = 0.01  # share of the peak at which warmup starts when no rule raised it


@dataclass(frozen=True)
class Plan:
    """Every number that follows from the config and the number of processes."""

    processes: int
    batch_size: int
    """Images per process per micro-batch, which is one virtual worker's share of an update."""
    accumulate: int
    """Micro-batches per process per update."""
    global_batch: int
    """Images per update, all processes."""
    epochs: int
    updates_per_epoch: int
    images_dropped: int
    """Images at the end of each epoch's order that fill no update."""
    learning_rate: Schedule
    betas: tuple[float, float]
    eps: float

    @property
    def total_updates(self) -> int:
        """Updates in the whole run."""
        return self.epochs * self.updates_per_epoch

    @property
    def virtual_workers(self) -> int:
        """Micro-batches per update, all processes."""
        return self.global_batch // self.batch_size


def make_plan(config: TrainConfig, processes: int, train_images: int) -> Plan:
    """Work out a run from a config whose defaults are filled in.

    Raises:
        UserError: the batch sizes do not fit each other, the processes or the data.
    """
    assert config.batch_size is not None
    assert config.epochs is not None
    global_batch, accumulate = _batches(config, config.batch_size, processes)
    updates_per_epoch, images_dropped = divmod(train_images, global_batch)
    if updates_per_epoch == 0:
        raise UserError(
            f"a batch of {global_batch:,} images per update is larger than the {train_images:,} training images",
            f"choose --batch-size, --accumulate or processes so that their product is at most {train_images}",
        )
    betas, eps = _adam(config, global_batch)
    return Plan(
        processes=processes,
        batch_size=config.batch_size,
        accumulate=accumulate,
        global_batch=global_batch,
        epochs=config.epochs,
        updates_per_epoch=updates_per_epoch,
        images_dropped=images_dropped,
        learning_rate=_learning_rate(config, global_batch, updates_per_epoch),
        betas=betas,
        eps=eps,
    )


def _batches(config: TrainConfig, batch_size: int, processes: int) -> tuple[int, int]:
    """Return images per update and micro-batches per process."""
    if config.global_batch_size is None:
        accumulate = config.accumulate or 1
        return batch_size * processes * accumulate, accumulate
    workers, rest = divmod(config.global_batch_size, batch_size)
    if rest or workers == 0:
        raise UserError(
            f"--global-batch-size {config.global_batch_size} is no multiple of --batch-size {batch_size}",
            f"choose a multiple, such as {max(1, round(config.global_batch_size / batch_size)) * batch_size}",
        )
    accumulate, rest = divmod(workers, processes)
    if rest:
        fitting = ", ".join(str(p) for p in range(1, workers + 1) if workers % p == 0)
        raise UserError(
            f"{processes} processes cannot share {workers} micro-batches of {batch_size} images evenly",
            f"with --global-batch-size {config.global_batch_size} and --batch-size {batch_size} "
            f"the number of processes can be {fitting}",
        )
    if config.accumulate not in (None, accumulate):
        raise UserError(
            f"--accumulate {config.accumulate} × {processes} processes × --batch-size {batch_size} "
            f"is not --global-batch-size {config.global_batch_size}",
            f"leave --accumulate out: it follows from the others ({accumulate})",
        )
    return config.global_batch_size, accumulate


def _learning_rate(config: TrainConfig, global_batch: int, updates_per_epoch: int) -> Schedule:
    assert config.lr is not None
    assert config.lr_scaling is not None
    assert config.epochs is not None
    assert config.warmup_epochs is not None
    if config.warmup_epochs >= config.epochs:
        raise UserError(
            f"--warmup-epochs {config.warmup_epochs:g} leaves nothing of --epochs {config.epochs}",
            "warm up for less than the whole run",
        )
    for milestone in config.milestones or ():
        if not 0 < milestone < config.epochs:
            raise UserError(
                f"--milestones {milestone:g} is not within the {config.epochs} epochs of the run",
                "give epochs after 0 and before the last",
            )
    ratio = global_batch / config.lr_base_batch if config.lr_base_batch else 1.0
    peak = config.lr * SCALINGS[config.lr_scaling](ratio)
    # Goyal et al. 2017, §2.2: a rule that raised the rate starts from the unraised one.
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


def _adam(config: TrainConfig, global_batch: int) -> tuple[tuple[float, float], float]:
    """Scale Adam's betas and epsilon with the batch (Malladi et al. 2022, square root scaling rule)."""
    if config.optimizer != "adamw" or config.lr_scaling != "sqrt":
        return _ADAM_BETAS, _ADAM_EPS
    assert config.lr_base_batch
    ratio = global_batch / config.lr_base_batch
    if ratio * (1 - _ADAM_BETAS[0]) > _ADAM_REACH:
        limit = round(config.lr_base_batch * _ADAM_REACH / (1 - _ADAM_BETAS[0]))
        raise UserError(
            f"the sqrt rule of AdamW does not reach from {config.lr_base_batch} to {global_batch} images per update",
            f"use at most {limit} images per update, --lr-scaling none, or a larger --lr-base-batch",
        )
    beta1, beta2 = (1 - ratio * (1 - beta) for beta in _ADAM_BETAS)
    return (beta1, beta2), _ADAM_EPS / math.sqrt(ratio)
