"""The numbers of a run: batches, updates and learning rates, from its config and the number of processes."""

import math
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Self

from accel_train.config.lr_schedule import SCALINGS, Schedule
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig
from accel_train.errors import UserError

_ADAM_BETAS = (0.9, 0.999)
_ADAM_EPS = 1e-8
_MAX_ADAM_RATIO = 0.5  # of batch ratio × (1 - beta1): near 1 the sqrt rule breaks down
_MOST_TRIED = 100_000  # divisors
COLD_START = 0.01
"""Fraction of the peak at which warmup starts if scaling did not raise it."""


@dataclass(frozen=True)
class Plan:
    """All numbers that follow from the config and the number of processes."""

    processes: int
    batch_size: int
    """Images per micro-batch."""
    global_batch: int
    """Images per update, all processes."""
    epochs: int
    updates_per_epoch: int
    images_dropped: int
    """Images of the incomplete last batch of an epoch."""
    learning_rate: Schedule
    betas: tuple[float, float]
    eps: float
    stages: int = 1
    """Processes that share one replica of the model, each with a part of it."""

    @property
    def replicas(self) -> int:
        """Replicas of the model, which share the micro-batches of an update."""
        return self.processes // self.stages

    @property
    def blocks(self) -> tuple[range, ...]:
        """The indices of each replica's micro-batches in an update."""
        return divide(self.micro_batches, self.replicas)

    @property
    def accumulate(self) -> int:
        """Micro-batches per replica per update; if they cannot be divided equally, those of the first replica."""
        return len(self.blocks[0])

    @property
    def total_updates(self) -> int:
        """Updates of the whole run."""
        return self.epochs * self.updates_per_epoch

    @property
    def micro_batches(self) -> int:
        """Micro-batches per update, all processes."""
        return self.global_batch // self.batch_size

    def with_batch_size(self, batch_size: int) -> Self:
        """Return the plan with a batch size that divides the global batch, which stays."""
        assert self.global_batch % batch_size == 0
        return replace(self, batch_size=batch_size)


def divide(micro_batches: int, replicas: int) -> tuple[range, ...]:
    """Return a block of consecutive micro-batches for each replica; the first ones carry one more if need be."""
    each, more = divmod(micro_batches, replicas)
    ends = accumulate((each + (replica < more) for replica in range(replicas)), initial=0)
    return tuple(range(start, end) for start, end in pairwise(ends))


def make_plan(
    config: ResolvedConfig, processes: int, train_images: int, batch_size: int | None = None, *, stages: int = 1
) -> Plan:
    """Plan a run; with a `batch_size`, ignore the config's and its `accumulate`.

    `stages` processes share a replica of the model.

    Raises:
        UserError: the batch sizes do not fit each other, the processes or the data.
    """
    per_process = config.accumulate if batch_size is None else None
    batch_size = batch_size or config.batch_size
    global_batch = images_per_update(config.global_batch_size, batch_size, per_process, processes // stages, stages)
    updates_per_epoch, images_dropped = divmod(train_images, global_batch)
    if updates_per_epoch == 0:
        raise UserError(*_too_large(config, global_batch, processes // stages, stages, per_process or 1, train_images))
    betas, eps = _adam(config, global_batch)
    return Plan(
        processes=processes,
        batch_size=batch_size,
        global_batch=global_batch,
        epochs=config.epochs,
        updates_per_epoch=updates_per_epoch,
        images_dropped=images_dropped,
        learning_rate=_learning_rate(config, global_batch, updates_per_epoch),
        betas=betas,
        eps=eps,
        stages=stages,
    )


def images_per_update(
    global_batch_size: int | None, batch_size: int, per_replica: int | None, replicas: int, stages: int
) -> int:
    """Return the global batch; `per_replica` micro-batches are asked of each replica, if that is not None.

    Raises:
        UserError: the batch sizes do not fit each other or the processes.
    """
    if global_batch_size is None:
        return batch_size * replicas * (per_replica or 1)
    micro_batches, rest = divmod(global_batch_size, batch_size)
    if rest or micro_batches == 0:
        raise UserError(
            f"--global-batch-size {global_batch_size} is not a multiple of --batch-size {batch_size}",
            f"choose a multiple, such as {max(1, round(global_batch_size / batch_size)) * batch_size}",
        )
    sharers = _sharers(replicas, stages)
    if micro_batches < replicas:
        shared = "one micro-batch" if micro_batches == 1 else f"{micro_batches:,} micro-batches"
        raise UserError(
            f"{sharers} cannot share {shared} of {batch_size} (--global-batch-size {global_batch_size})",
            _sharing(global_batch_size, batch_size, replicas, stages, micro_batches),
        )
    if per_replica not in (None, micro_batches / replicas):
        each = _sharers(1, stages).removeprefix("1 ")
        raise UserError(
            f"--accumulate {per_replica} × {sharers} × --batch-size {batch_size} "
            f"is not --global-batch-size {global_batch_size}",
            f"leave out --accumulate: it follows from the others ({micro_batches / replicas:.3g} per {each})",
        )
    return global_batch_size


def _sharers(replicas: int, stages: int) -> str:
    """Return who shares the micro-batches of an update, such as ``2 processes``."""
    if stages > 1:
        return f"{replicas} replica{'s' * (replicas > 1)}"
    return f"{replicas} process{'es' * (replicas > 1)}"


def _sharing(global_batch: int, batch_size: int, replicas: int, stages: int, micro_batches: int) -> str:
    """Return a hint for fewer micro-batches than replicas: a smaller batch size, or fewer processes."""
    share = global_batch // replicas
    size = max((n for n in range(1, min(share, _MOST_TRIED) + 1) if global_batch % n == 0), default=0)
    larger = ""
    if 2 * size < max(1, share):  # a global batch like 2 × 97 has no better one
        larger, size = f"--global-batch-size {replicas * batch_size} ", batch_size
    fewer = micro_batches * stages
    return f"use {larger}--batch-size {size}, or {fewer} process{'es' * (fewer > 1)}"


def _too_large(
    config: ResolvedConfig, global_batch: int, replicas: int, stages: int, accumulate: int, train_images: int
) -> tuple[str, str]:
    """Return error and hint for a global batch that is larger than the data set."""
    images = f"{train_images:,} training image{'s' * (train_images > 1)}"
    message = f"the global batch of {global_batch:,} images is larger than the {images}"
    if replicas > train_images:
        most = train_images * stages
        return message, f"use at most {most} process{'es' * (most > 1)}"
    if config.global_batch_size is not None:
        batch_size = min(config.batch_size, train_images // replicas)
        share = batch_size * replicas
        smaller = f" --batch-size {batch_size}" * (batch_size < config.batch_size)
        return message, f"use --global-batch-size {train_images // share * share}{smaller}"
    if replicas * accumulate > train_images:
        return message, f"use --accumulate {train_images // replicas} or less"
    micro_batches = replicas * accumulate
    of = f" ({micro_batches} micro-batches per update)" * (micro_batches > 1)
    return message, f"use --batch-size {train_images // micro_batches} or less{of}"


def _learning_rate(config: ResolvedConfig, global_batch: int, updates_per_epoch: int) -> Schedule:
    length = "the epoch" if config.epochs == 1 else f"the {config.epochs} epochs"
    if config.warmup_epochs >= config.epochs:
        raise UserError(
            f"--warmup-epochs {config.warmup_epochs:g} must be less than {length} of the run",
            f"use --warmup-epochs {config.epochs / 5:g}, or --epochs {math.floor(config.warmup_epochs) + 1} or more",
        )
    for milestone in config.milestones or ():
        if not 0 < milestone < config.epochs:
            raise UserError(
                f"--milestones {milestone:g} is not within {length} of the run",
                f"use epochs above 0 and below {config.epochs}, or more --epochs",
            )
    ratio = global_batch / (config.lr_base_batch or global_batch)
    peak = min(config.lr * SCALINGS[config.lr_scaling](ratio), config.max_lr or math.inf)
    if math.isinf(peak):
        raise UserError(
            f"--lr {config.lr:g} at {config.lr_base_batch} images per update is infinite at {global_batch}",
            "use a lower --lr, or --lr-scaling none",
        )
    # Goyal et al. 2017, §2.2: if scaling raised the learning rate, warmup starts from the unscaled one.
    warmup_from = config.lr if peak > config.lr else peak * COLD_START
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
    # A limit above the base rate is one of the ratio: the rule holds for the batch that it stands for.
    ratio = min(global_batch / base, max(1, (config.max_lr / config.lr) ** 2) if config.max_lr else math.inf)
    if ratio * (1 - _ADAM_BETAS[0]) > _MAX_ADAM_RATIO:
        largest = _MAX_ADAM_RATIO / (1 - _ADAM_BETAS[0])
        limit = min(0.95 * config.lr * math.sqrt(largest), config.usual_rate.max_lr)
        raise UserError(
            f"the sqrt scaling rule cannot take {config.optimizer} from {base} to {global_batch} images per update",
            f"use at most {round(base * largest)} images per update, --max-lr {limit:.2g}, or --lr-scaling none",
        )
    beta1, beta2 = (1 - ratio * (1 - beta) for beta in _ADAM_BETAS)
    return (beta1, beta2), _ADAM_EPS / math.sqrt(ratio)
