"""Where a model is cut into stages: at named modules, or so that the slowest stage is as fast as possible."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.distributed.strategies.blocks import CHECKPOINTED
from accel_train.distributed.strategies.inputs import Block
from accel_train.errors import UserError

_PASSES = 3
"""Time of a forward and a backward pass, in forward passes."""
_BYTES_PER_SECOND = 1e9
"""Rough speed at which activations are sent, and weights averaged and updated; only where to cut depends on it."""
_MOST_NAMES = 40


@dataclass(frozen=True)
class BlockCost:
    """What a block costs, and the tensor that it passes on."""

    seconds: float
    """Of the forward pass of a micro-batch."""
    bytes: int
    """Of its trainable parameters."""
    shape: torch.Size
    """Of its output, like the following."""
    dtype: torch.dtype
    channels_last: bool

    @property
    def output_bytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


def measure(
    model: nn.Module,
    blocks: Sequence[Block],
    images_BCHW: Tensor,
    autocast: Callable[[], AbstractContextManager[Any]],
) -> list[BlockCost]:
    """Measure the blocks of a model on the CPU, each on the device of the images; this changes nothing in the model.

    Raises:
        UserError: the blocks are not the model's forward pass, or one does not make one tensor out of one.
    """
    costs = []
    with _unchanged(model), torch.no_grad():
        for training in (True, False):
            _check_sequence(model.train(training), blocks, images_BCHW[:2].cpu())
        with autocast():
            x = images_BCHW
            for block in blocks:
                cost, x = _measure_block(model, block, x)
                costs.append(cost)
    return costs


def cut_at(blocks: Sequence[Block], names: Sequence[str], stages: int) -> list[int]:
    """Return the first block of each stage; all stages but the first start at a module of these names.

    Raises:
        UserError: there are more or fewer names, they are not in order, or a stage cannot start there.
    """
    given = f"--pipeline-split {','.join(names)}"
    if len(names) != stages - 1:
        raise UserError(
            f"{given} cuts the model into {len(names) + 1} stages, not into --pipeline-stages {stages}",
            f"name {stages - 1}: where each stage but the first starts",
        )
    starts = [0]
    for name in names:
        start = next((n for n, block in enumerate(blocks) if f"{block.name}.".startswith(f"{name}.")), 0)
        if start == 0:
            raise UserError(
                f"{given}: no stage can start at {name or 'an empty name'}", f"choose from {_names(blocks)}"
            )
        if start <= starts[-1]:
            raise UserError(f"{given}: {name} does not follow the name before it", f"the order is {_names(blocks)}")
        starts.append(start)
    return starts


def check_checkpointed(model: nn.Module, blocks: Sequence[Block]) -> None:
    """Check that every module with activation checkpointing is called by a block, not only its parts.

    Raises:
        UserError: one is not.
    """
    parts = [f"{part}." for block in blocks for part in block.parts]
    for name, module in model.named_modules():
        if hasattr(type(module), CHECKPOINTED) and not any(f"{name}.".startswith(part) for part in parts):
            raise UserError(
                f"--activation-checkpointing has no effect on {name}: the blocks of the pipeline are parts of it",
                f"name {name} itself in pipeline_blocks, or leave --activation-checkpointing out",
            )


def check_trainable(blocks: Sequence[Block], costs: Sequence[BlockCost], starts: Sequence[int]) -> None:
    """Check that each stage has something to train.

    Raises:
        UserError: one has not.
    """
    for stage, (start, end) in enumerate(pairwise([*starts, len(blocks)])):
        if not any(cost.bytes for cost in costs[start:end]):
            raise UserError(
                f"stage {stage} of --strategy pipeline, from {blocks[start].name} on, has no trainable parameters",
                "use fewer --pipeline-stages, or name other modules in --pipeline-split",
            )


def cheapest_cut(costs: Sequence[BlockCost], stages: int, micro_batches: int) -> list[int]:
    """Return the first block of each stage so that the slowest stage is as fast as possible.

    Counted are, per micro-batch of the `micro_batches` that an update has on a replica: both passes, sending
    activations and their gradients, and a share of updating the weights. A stage trains something, if that can be.
    """
    blocks = len(costs)
    trained = [0, *accumulate(c.bytes for c in costs)]
    seconds = [0.0, *accumulate(_PASSES * c.seconds + c.bytes / _BYTES_PER_SECOND / micro_batches for c in costs)]
    sending = [0.0, *(c.output_bytes / _BYTES_PER_SECOND for c in costs[:-1]), 0.0]

    def slowest(start: int, end: int, before: float) -> float:
        own = seconds[end] - seconds[start] + sending[start] + sending[end]
        return max(before, own if trained[end] > trained[start] else math.inf)

    found = {end: (slowest(0, end, 0.0), [0]) for end in range(1, blocks + 1)}
    for stage in range(1, stages):
        found = {
            end: min((slowest(start, end, found[start][0]), [*found[start][1], start]) for start in range(stage, end))
            for end in range(stage + 1, blocks + 1)
        }
    return found[blocks][1]


def describe_cut(blocks: Sequence[Block], costs: Sequence[BlockCost], starts: Sequence[int], micro_batches: int) -> str:
    """Return the stages with their shares of parameters and forward time, and the share of time that they are idle."""
    stages = len(starts)
    parts = []
    for stage, (start, end) in enumerate(pairwise([*starts, len(blocks)])):
        time_share = sum(c.seconds for c in costs[start:end]) / sum(c.seconds for c in costs)
        weight_share = sum(c.bytes for c in costs[start:end]) / max(1, sum(c.bytes for c in costs))
        span = blocks[start].name + f" to {blocks[end - 1].name}" * (end - start > 1)
        shares = f"{_percent(weight_share)} of the parameters, {_percent(time_share)} of the forward time"
        parts.append(f"stage {stage}: {span} ({shares})")
    idle = (stages - 1) / (micro_batches + stages - 1)
    return f"the model is cut: {'; '.join(parts)}; equal stages would be idle for {_percent(idle)} of the time"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "under 1 %"


def _names(blocks: Sequence[Block]) -> str:
    names = [block.name for block in blocks[1:]]
    if len(names) > _MOST_NAMES:
        names = [*dict.fromkeys(name.rpartition(".")[0] or name for name in names)]
    return ", ".join(names)


@contextmanager
def _unchanged(model: nn.Module) -> Iterator[None]:
    """Restore the mode and the buffers of a model, and torch's random numbers on the CPU."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        for buffer, before in buffers:
            buffer.copy_(before)


def _check_sequence(model: nn.Module, blocks: Sequence[Block], images_BCHW: Tensor) -> None:
    hint = "name all of its modules in the order in which they run; nothing may be computed between them"
    torch.default_generator.manual_seed(0)
    output = model(images_BCHW.clone())  # a block may write into them
    torch.default_generator.manual_seed(0)
    x = images_BCHW.clone()
    for block in blocks:
        try:
            x = block.forward(x)
        except (RuntimeError, TypeError, ValueError) as error:  # the model itself takes these images
            reason = str(error).partition("\n")[0]
            raise UserError(
                f"--strategy pipeline: the block {block.name} does not take what the blocks before it give: {reason}",
                hint,
            ) from error
        if not isinstance(x, Tensor) or not x.is_floating_point():
            found = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise UserError(
                f"--strategy pipeline: the block {block.name} returns {found}, not one tensor of floating point",
                "name larger blocks, which pass on one such tensor",
            )
    if not isinstance(output, Tensor) or not torch.equal(x, output):
        mode = "training" if model.training else "evaluation"
        raise UserError(
            f"--strategy pipeline: the blocks of the model, one after another, do not give its output in {mode}", hint
        )


def _measure_block(model: nn.Module, block: Block, x: Tensor) -> tuple[BlockCost, Tensor]:
    tensors = [tensor for part in block.parts for tensor in _tensors(model, part)]
    on_cpu = [tensor.data for tensor in tensors]
    for tensor in tensors:
        tensor.data = tensor.data.to(x.device)
    seconds = []
    for _ in range(2):  # the first time takes longer
        _synchronize(x.device)
        began = time.perf_counter()
        y = block.forward(x)
        _synchronize(x.device)
        seconds.append(time.perf_counter() - began)
    for tensor, original in zip(tensors, on_cpu, strict=True):
        tensor.data = original
    channels_last = y.ndim == 4 and y.is_contiguous(memory_format=torch.channels_last) and not y.is_contiguous()
    trainable = sum(tensor.nbytes for tensor in tensors if tensor.requires_grad)
    return BlockCost(min(seconds), trainable, y.shape, y.dtype, channels_last), y


def _tensors(model: nn.Module, part: str) -> list[Tensor]:
    parent, _, own = part.rpartition(".")
    owner = model.get_submodule(parent)
    if own in owner._parameters:
        return [owner.get_parameter(own)]
    module = owner.get_submodule(own)
    return [*module.parameters(), *module.buffers()]


def _synchronize(device: torch.device) -> None:
    if device.type != "cpu":
        torch.accelerator.synchronize()
