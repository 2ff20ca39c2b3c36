"""The memory of the devices of a pipeline, each of which computes one stage of the model.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from accel_train.distributed.strategies.inputs import Block
from accel_train.distributed.strategies.pipeline import drop_blocks
from accel_train.distributed.strategies.pipeline_cut import (
    BlockCost,
    cheapest_cut,
    check_checkpointed,
    check_trainable,
    cut_at,
)
from accel_train.distributed.strategies.pipeline_schedule import passes
from accel_train.distributed.strategies.pipeline_stage import Sent
from accel_train.errors import UserError
from accel_train.planning.memory import DeviceMemory
from accel_train.planning.subject import Subject
from accel_train.planning.torch_private import LiveBytes, fake_tensors, to_fake
from accel_train.planning.update import Sharing, Simulated, Update, device_memory

_FLOPS_PER_SECOND = 1e13
"""Rough speed of a device; only where to cut depends on it."""


@dataclass(frozen=True)
class Cut:
    """Where a model is cut into stages."""

    starts: Sequence[int]
    """First block of each stage."""
    names: tuple[str, ...]
    """Of the blocks at which all stages but the first start, as for ``--pipeline-split``."""
    costs: Sequence[BlockCost]
    """Of all blocks; their seconds follow from floating-point operations."""

    @property
    def ends(self) -> list[int]:
        return [*self.starts[1:], len(self.costs)]

    @property
    def weights(self) -> list[int]:
        """The trainable bytes of each stage."""
        return [sum(c.bytes for c in self.costs[a:b]) for a, b in pairwise([*self.starts, len(self.costs)])]

    @property
    def passed_on(self) -> list[int]:
        """The bytes of a micro-batch that each stage but the last passes on."""
        return [self.costs[start - 1].output_bytes for start in self.starts[1:]]


def find_cut(subject: Subject, stages: int, split: Sequence[str], micro_batches: int) -> Cut:
    """Cut the model at the modules named in `split`, else so that the slowest stage is as fast as possible.

    Raises:
        UserError: it cannot be cut so.
    """
    built, _ = subject.build_without_data(torch.channels_last)
    with fake_tensors():
        to_fake(built.module)
        blocks = built.blocks()
        if len(blocks) < stages:
            raise UserError(f"--pipeline-stages {stages}: the model has {len(blocks)} blocks", "use fewer stages")
        check_checkpointed(built.module, blocks)
        costs = []
        x = subject.images(built, subject.plan.batch_size)
        with torch.no_grad(), subject.autocast():
            for block in blocks:
                cost, x = _cost(built.module, block, x)
                costs.append(cost)
    starts = cut_at(blocks, split, stages) if split else cheapest_cut(costs, stages, micro_batches)
    check_trainable(blocks, costs, starts)
    return Cut(starts, tuple(blocks[start].name for start in starts[1:]), costs)


def stage_memory(subject: Subject, sharing: Sharing, cut: Cut, schedule: str) -> list[DeviceMemory]:
    """Return the memory of the device of each stage."""
    sizes = (subject.plan.batch_size, 2 * subject.plan.batch_size)
    return [
        device_memory(sizes, [_simulate(subject, sharing, cut, stage, schedule, size) for size in sizes])
        for stage in range(len(cut.starts))
    ]


def in_flight(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """Return the most micro-batches whose activations a stage stores at once."""
    changes = (1 if kind == "forward" else -1 for kind, _ in passes(schedule, stage, stages, micro_batches))
    return max(accumulate(changes))


def _cost(module: nn.Module, block: Block, x: Tensor) -> tuple[BlockCost, Tensor]:
    with FlopCounterMode(display=False) as counter:
        y = block.forward(x)
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    own = [name for name in names if any(f"{name}.".startswith(f"{part}.") for part in block.parts)]
    trainable = sum(module.get_parameter(name).nbytes for name in own)
    channels_last = y.ndim == 4 and y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    return BlockCost(counter.get_total_flops() / _FLOPS_PER_SECOND, trainable, y.shape, y.dtype, channels_last), y


def _simulate(subject: Subject, sharing: Sharing, cut: Cut, stage: int, schedule: str, batch_size: int) -> Simulated:
    """Make one update of a stage in fake tensors, with the activations of other micro-batches beside those of one."""
    start, end, is_last = cut.starts[stage], cut.ends[stage], stage == len(cut.starts) - 1
    built, tuning = subject.build_without_data(torch.channels_last)
    module, blocks = built.module, built.blocks()
    drop_blocks(module, [*blocks[:start], *blocks[end:]])
    scale = batch_size / subject.plan.batch_size
    received = Sent.output_of(cut.costs[start - 1]) if stage else None
    sent = None if is_last else Sent.output_of(cut.costs[end - 1])
    others = in_flight(schedule, stage, len(cut.starts), sharing.accumulate) - 1
    with fake_tensors(), LiveBytes(on_cpu=subject.on_cpu) as live:
        to_fake(module)
        update = Update(subject, sharing, module, tuning, live)
        # torch keeps a buffer for each tensor that a stage receives in an update (2.14); those of this one come below.
        buffers = [_empty(tensor, (sharing.accumulate - 1) * scale) for tensor in (received, sent) if tensor]
        if sharing.accumulate > 1 and not subject.config.exact:
            for parameter in update.trained:
                parameter.grad = torch.zeros_like(parameter)
        live.record.clear()
        before = live.now
        update.batch_norm.begin_micro_batch()
        given = _received(received, scale) if received else subject.images(built, batch_size)
        x = received.unpack(given) if received else given.clone()
        with subject.autocast():
            for block in blocks[start:end]:
                x = block.forward(x)
        output = sent.pack(x) if sent else subject.loss(x)
        update.batch_norm.end_micro_batch()
        own = live.now - before
        kept = torch.zeros(own * others, dtype=torch.uint8)
        torch.autograd.backward(output, None if is_last else torch.zeros_like(output))
        del x, output, kept
        if sharing.processes > 1 and not subject.config.exact:  # what replicas average
            torch.cat([p.grad.flatten() for p in update.trained if p.grad is not None])
        del given, buffers
        return update.finish(own * (others + 1))


def _empty(tensor: Sent, count: float) -> Tensor:
    return torch.zeros(round(tensor.shape.numel() * count), dtype=tensor.dtype)


def _received(tensor: Sent, scale: float) -> Tensor:
    """Return what a stage gets, of a micro-batch `scale` times as large."""
    shape = (round(tensor.shape[0] * scale), *tensor.shape[1:])
    return torch.zeros(shape, dtype=tensor.dtype, requires_grad=True)
