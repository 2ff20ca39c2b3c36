"""One update of a device in fake tensors: the parts that all strategies have in common."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.distributed.strategies.sharded import local
from accel_train.planning.memory import DeviceMemory, Line, Peak
from accel_train.planning.subject import Subject
from accel_train.planning.torch_private import LiveBytes
from accel_train.run.fine_tuning import FineTuning
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.tree_reduce import flat_gradients, set_gradients, subtrees


@dataclass(frozen=True)
class Sharing:
    """How processes share the work of an update."""

    processes: int
    shards: int = 1
    """Processes that share the weights: all of them under FSDP2, those of a group under HSDP."""
    blocks: tuple[range, ...] = field(default=(range(1),))
    """The micro-batches of each replica in an update."""

    @property
    def accumulate(self) -> int:
        return len(self.blocks[0])


@dataclass(frozen=True)
class Simulated:
    """An update of one batch size: bytes."""

    parts: tuple[int, int, int, int]
    """Weights, gradients, optimizer state, EMA."""
    activations: int
    record: Sequence[int]
    """What is taken after each operation."""
    tree: int = 0


def device_memory(sizes: tuple[int, int], simulated: Sequence[Simulated]) -> DeviceMemory:
    """Return the memory of a device, given its updates at two batch sizes."""
    first, second = simulated
    weights, gradients, optimizer, ema = first.parts
    return DeviceMemory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        ema=ema,
        activations=Line.through(sizes, (first.activations, second.activations)),
        peak=Peak.of(sizes, (first.record, second.record)),
        tree=first.tree,
    )


class Update:
    """The state of a device before an update, after one that has left the optimizer's state; `live` counts it."""

    def __init__(
        self,
        subject: Subject,
        sharing: Sharing,
        module: nn.Module,
        tuning: FineTuning,
        live: LiveBytes,
        *,
        fused: bool = True,
        buckets: bool = False,
    ) -> None:
        """Allocate it; `buckets` are those of DDP."""
        self.batch_norm = BatchNormBuffers(module)
        live.add([*module.parameters(), *module.buffers()])
        self.trained = [p for p in module.parameters() if p.requires_grad]
        self._subject = subject
        self._module = module
        self._live = live
        self._optimizer = subject.optimizer(module, tuning, fused=fused)
        self._ema = [local(tensor).clone() for tensor in averaged(module)] if subject.config.ema else []
        self.average = Average(subject, sharing, self.trained, buckets=buckets)
        live.record.clear()

    def finish(self, activations: int) -> Simulated:
        """Update the weights by the gradients that the passes have left."""
        self.average.finish(self.batch_norm.take_change())
        self._clip()
        gradients = sum(local(p.grad).nbytes for p in self.trained if p.grad is not None)
        self._optimizer.step()
        if self._ema:
            torch._foreach_lerp_(self._ema, [local(tensor) for tensor in averaged(self._module)], 0.5)
        ema = sum(tensor.nbytes for tensor in self._ema)
        parts = (state_bytes(self._module), gradients, optimizer_bytes(self._optimizer), ema)
        return Simulated(parts, activations, list(self._live.record), self.average.tree)

    def _clip(self) -> None:
        clip_norm = self._subject.config.clip_norm
        if clip_norm is not None:
            norm = torch.nn.utils.get_total_norm([p.grad for p in self.trained if p.grad is not None])
            torch.nn.utils.clip_grads_with_norm_(self.trained, clip_norm, norm)


class Average:
    """What averaging gradients over micro-batches and processes takes."""

    def __init__(self, subject: Subject, sharing: Sharing, trained: Sequence[nn.Parameter], *, buckets: bool) -> None:
        """Take the memory that averaging needs all the time: that of DDP's `buckets`, and sums of ``--exact``."""
        self.tree = 0
        self._sharing = sharing
        self._trained = trained
        self._exact = subject.config.exact
        self._buckets: Tensor | None = None
        self._held: list[Tensor] = []
        size = sum(p.numel() for p in trained)
        if self._exact:
            vectors, parts = tree_vectors(sharing.blocks)
            self.tree = (vectors + (parts if sharing.processes > 1 else 0)) * size * subject.dtype.itemsize
            self._held = [torch.zeros(size, dtype=subject.dtype) for _ in range(vectors - 1)]
            self._parts = torch.zeros(parts * size, dtype=subject.dtype) if sharing.processes > 1 else None
        elif buckets:
            self._buckets = torch.zeros(size, dtype=subject.dtype)

    def over_processes(self) -> None:
        """Let the next backward pass move its gradients into the buckets."""
        if self._buckets is None:
            return
        parts = torch.split(self._buckets, [p.numel() for p in self._trained])
        for parameter, part in zip(self._trained, parts, strict=True):
            hook = _into(part.view_as(parameter))
            parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]

    def finish(self, change: Tensor) -> None:
        """Set the mean gradient."""
        if self._exact:
            flat = flat_gradients(self._trained, change)
            for held in self._held:
                held.add_(flat[: held.numel()])
            set_gradients(self._trained, flat)


def _into(bucket: Tensor) -> Any:
    """Return a hook that moves a gradient into DDP's bucket."""

    def hook(parameter: Tensor) -> None:
        assert parameter.grad is not None
        bucket.copy_(parameter.grad)
        parameter.grad = bucket

    return hook


def tree_vectors(blocks_: Sequence[range]) -> tuple[int, int]:
    """Return how many sums of gradients a process holds at once under ``--exact``, and how many it gets from others.

    Each process gets its slice of the sums of all.
    """
    micro_batches = blocks_[-1].stop
    most = 0
    for end in range(blocks_[0].start, blocks_[0].stop):
        most = max(most, 1 + len(subtrees(micro_batches, blocks_[0].start, end)) if end else 1)
    received = sum(len(subtrees(micro_batches, block.start, block.stop)) for block in blocks_)
    return most, -(-received // len(blocks_))


def averaged(module: nn.Module) -> list[Tensor]:
    """Return what an EMA averages: trainable parameters and floating-point buffers."""
    trained = [p.detach() for p in module.parameters() if p.requires_grad]
    return [*trained, *(b for b in module.buffers() if b.is_floating_point())]


def state_bytes(module: nn.Module) -> int:
    """Return the bytes of the parameters and buffers that are saved."""
    return sum(local(tensor).nbytes for tensor in module.state_dict().values())


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    values = (value for state in optimizer.state.values() for value in state.values())
    return sum(local(value).nbytes for value in values if isinstance(value, Tensor))
