"""Seeds the random numbers that a model draws: a key for each micro-batch, and for each block that draws any.

So a block draws the same numbers wherever the blocks before it are computed.
"""

from collections.abc import Sequence
from typing import Any

from torch import nn

from accel_train.rng import make_key, seed_libraries


class RandomNumbers:
    """The random numbers of a model's forward passes in training."""

    def __init__(self, seed: int, blocks: Sequence[tuple[int, nn.Module]] = ()) -> None:
        """Take the blocks that may draw random numbers: the number of each in the model, and its first module."""
        self._seed = seed
        self._micro_batch = 0, 0
        for number, module in blocks:
            module.register_forward_pre_hook(self._before(number))

    def begin(self, update: int, micro_batch_index: int) -> None:
        """Seed for a pass of a micro-batch; the passes of several may alternate."""
        self._micro_batch = update, micro_batch_index
        seed_libraries(make_key(self._seed, "update", update, micro_batch_index))

    def _before(self, number: int) -> Any:
        def seed(module: nn.Module, arguments: Any) -> None:
            if module.training:
                seed_libraries(make_key(self._seed, "block", *self._micro_batch, number))

        return seed
