"""Exponential moving average (EMA) of a model's weights and buffers."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from accel_train.distributed.strategies.base import Strategy


class Ema:
    """Averages of trainable parameters and floating-point buffers, sharded like these.

    Non-finite buffers are constants, such as attention masks, and ignored: inf - inf is NaN.
    """

    def __init__(
        self, model: nn.Module, decay: float, strategy: Strategy, constant: Collection[str] = frozenset()
    ) -> None:
        """Start from the current weights; an update keeps the fraction `decay` of the average.

        `constant` are the names of parameters and buffers that training does not change.
        """
        self._model = model
        self._decay = decay
        self._strategy = strategy
        live = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        live |= {name: b for name, b in model.named_buffers() if b.is_floating_point() and bool(b.isfinite().all())}
        live = {name: tensor for name, tensor in live.items() if name not in constant}
        self._tensors = {name: tensor.clone() for name, tensor in live.items()}
        # Local parts share memory with the tensors, and one list may hold them beside replicated tensors.
        self._live = [strategy.local(tensor) for tensor in live.values()]
        self._averages = [strategy.local(tensor) for tensor in self._tensors.values()]

    @torch.no_grad()
    def update(self) -> None:
        """Move the averages towards the weights; called after each update."""
        torch._foreach_lerp_(self._averages, self._live, 1 - self._decay)

    @contextmanager
    def in_place_of_weights(self) -> Iterator[None]:
        """Let the model compute with the averages; afterwards its weights are bit-identical to before."""
        weights = [tensor.clone() for tensor in self._live]
        self._copy_to_model(self._averages)
        try:
            yield
        finally:
            self._copy_to_model(weights)

    def tensors(self) -> dict[str, Tensor]:
        """Return the averages, not copied, by the names of parameters and buffers."""
        return dict(self._tensors)

    @torch.no_grad()
    def _copy_to_model(self, values: list[Tensor]) -> None:
        self._strategy.weights_changed(self._model)
        torch._foreach_copy_(self._live, values)
