"""BatchNorm's running statistics, the same for any number of processes.

Each micro-batch normalizes by its own images (Goyal et al. 2017, §2.3) and starts from the buffers as they were at the
start of the update. When the update ends, the changes that its micro-batches made to the buffers are averaged.

A micro-batch ends with its forward pass. So several may wait for their backward passes, and what a backward pass
recomputes does not count.
"""

from collections import deque

import torch
from torch import Tensor, nn


class BatchNormBuffers:
    """The buffers of a model, which each micro-batch changes and each update averages.

    Floating-point buffers become views of one flat tensor: one copy restores them, one all-reduce averages them. What
    is averaged is their change, so constants stay as they are. Counters (`num_batches_tracked`) are restored too, and
    so count updates.
    """

    def __init__(self, model: nn.Module) -> None:
        buffers = [(owner, name, buffer) for owner in model.modules() for name, buffer in owner._buffers.items()]
        floats = [b for _, _, b in buffers if b is not None and b.is_floating_point()]
        self._flat = torch.cat([b.flatten() for b in floats]) if floats else torch.empty(0)
        rest = self._flat
        for owner, name, buffer in buffers:
            if buffer is not None and buffer.is_floating_point():
                owner._buffers[name] = rest[: buffer.numel()].view_as(buffer)
                rest = rest[buffer.numel() :]
        self._counters = [b for _, _, b in buffers if b is not None and not b.is_floating_point()]
        self._counters_at_start = [b.clone() for b in self._counters]
        self._counters_at_end = [b.clone() for b in self._counters]
        self._at_start = self._flat.clone()
        self._changes: deque[Tensor] = deque()

    def begin_micro_batch(self) -> None:
        """Restore the buffers of the start of the update; called before a forward pass."""
        # `data`: autograd need not know, since a backward pass reads only buffers that never change, such as indices.
        if self._flat.numel():
            self._flat.data.copy_(self._at_start)
        _copy(self._counters_at_start, [counter.data for counter in self._counters])

    def end_micro_batch(self) -> None:
        """Record how the forward pass has changed the buffers."""
        _copy(self._counters, self._counters_at_end)
        if not self._flat.numel():
            self._changes.append(self._flat)
            return
        # What is the same may be infinite, as attention masks are: inf - inf is NaN. And -0.0 + 0.0 would be 0.0.
        same = self._flat == self._at_start
        self._changes.append(torch.where(same, -0.0, self._flat - self._at_start))

    def take_change(self) -> Tensor:
        """Return the change of the first micro-batch that was not taken yet."""
        return self._changes.popleft()

    def end_update(self, change: Tensor, micro_batches: int) -> None:
        """Apply the mean change; `change` is the sum over all micro-batches of the update."""
        if change.numel():
            self._at_start.add_(change, alpha=1 / micro_batches)
            self._flat.copy_(self._at_start)
        _copy(self._counters_at_end, self._counters_at_start)
        _copy(self._counters_at_end, self._counters)

    def reload(self) -> None:
        """Start from the current buffers of the model, as after loading a checkpoint."""
        self._at_start.copy_(self._flat)
        for counters in (self._counters_at_start, self._counters_at_end):
            _copy(self._counters, counters)


def _copy(tensors: list[Tensor], to: list[Tensor]) -> None:
    if tensors:
        torch._foreach_copy_(to, tensors)
