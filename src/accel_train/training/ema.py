"""Keeps an exponential moving average of a model's weights and statistics."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from accel_train.distributed.strategies.fsdp2 import local_part


class WeightAverage:
    """Averages of trainable parameters and floating-point buffers, sharded as these are.

    Buffers that are not finite are constants, such as attention masks, and left out: inf - inf is no number.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        """Begin with the weights as they are; `decay` is the share of the average that an update keeps."""
        self._model = model
        self._decay = decay
        live = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        live |= {name: b for name, b in model.named_buffers() if b.is_floating_point() and bool(b.isfinite().all())}
        self._tensors = {name: tensor.clone() for name, tensor in live.items()}
        # Local parts share the memory of the tensors, and may stand in one list with tensors that are whole.
        self._live = [local_part(tensor) for tensor in live.values()]
        self._averages = [local_part(tensor) for tensor in self._tensors.values()]

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the weights; call it after each update."""
        torch._foreach_lerp_(self._averages, self._live, 1 - self._decay)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Let the model compute with the averages; afterwards its weights are the same bits as before."""
        weights = [tensor.clone() for tensor in self._live]
        self._give_model(self._averages)
        try:
            yield
        finally:
            self._give_model(weights)

    def tensors(self) -> dict[str, Tensor]:
        """Return the live averages by the names of parameters and buffers, for saving and for loading in place."""
        return dict(self._tensors)

    @torch.no_grad()
    def _give_model(self, values: list[Tensor]) -> None:
        for part in self._model.modules():
            if isinstance(part, FSDPModule):
                part.reshard()  # or whole parameters, gathered in the last evaluation, would be used once more
        torch._foreach_copy_(self._live, values)
