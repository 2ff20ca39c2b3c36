"""BatchNorm's running statistics, the same for any number of processes.

Each virtual worker normalises by its own images (Goyal et al. 2017, §2.3): its micro-batch starts from the
update's buffers, and what the micro-batches made of them is averaged when the update ends.
"""

import torch
from torch import Tensor, nn


class RunningStatistics:
    """The buffers of a model, which each micro-batch changes and each update averages.

    Floating-point buffers become views of one flat tensor, so that all are restored by one copy and
    averaged by one all-reduce. What is averaged is their change: constants stay as they are. Counters
    (`num_batches_tracked`) are restored alike and so count updates.
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
        self._at_start = self._flat.clone()
        self._change: Tensor | None = None

    def begin_micro_batch(self) -> None:
        """Give the model the buffers that the update began with."""
        if self._flat.numel():
            self._flat.copy_(self._at_start)
        _copy(self._counters_at_start, self._counters)

    def end_micro_batch(self) -> None:
        """Note what the micro-batch made of the buffers."""
        if not self._flat.numel():
            self._change = self._flat
            return
        same = self._flat == self._at_start  # and may be infinite, as attention masks are: inf - inf is no number
        change = torch.where(same, 0.0, self._flat - self._at_start)
        self._change = change if self._change is None else self._change + change

    def take_change(self) -> Tensor:
        """Return the sum of the changes of this process's micro-batches since it was last taken."""
        change, self._change = self._change, None
        assert change is not None
        return change

    def end_update(self, change: Tensor, virtual_workers: int) -> None:
        """Take over the mean of the changes of all virtual workers, whose sum is `change`."""
        if change.numel():
            self._at_start.add_(change, alpha=1 / virtual_workers)
            self._flat.copy_(self._at_start)
        _copy(self._counters, self._counters_at_start)

    def reload(self) -> None:
        """Begin from what the model's buffers hold now, as after loading them."""
        self._at_start.copy_(self._flat)
        _copy(self._counters, self._counters_at_start)


def _copy(tensors: list[Tensor], to: list[Tensor]) -> None:
    if tensors:
        torch._foreach_copy_(to, tensors)
