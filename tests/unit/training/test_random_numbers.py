"""A block draws the same numbers whichever blocks were computed before it, and in whatever order micro-batches run."""

import random

import numpy as np
import torch
from torch import Tensor, nn

from accel_train.training.random_numbers import RandomNumbers


class Draws(nn.Module):
    """Returns numbers of all three libraries."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([torch.rand(()).item(), random.random(), np.random.rand()])


def drawing(*numbers: int) -> tuple[RandomNumbers, list[Draws]]:
    modules = [Draws() for _ in numbers]
    return RandomNumbers(7, list(zip(numbers, modules, strict=True))), modules


def test_numbers_follow_from_update_micro_batch_and_block_alone() -> None:
    whole, (first, second) = drawing(3, 5)
    whole.begin(2, 6)
    expected = first(torch.zeros(1)), second(torch.zeros(1))
    stage, (alone,) = drawing(5)  # a process that has the second block only
    stage.begin(2, 1)
    other = alone(torch.zeros(1))
    torch.rand(11)
    stage.begin(2, 6)
    torch.rand(3)
    assert torch.equal(alone(torch.zeros(1)), expected[1])
    assert not torch.equal(other, expected[1])
    assert not torch.equal(*expected)
    assert len({*map(float, (*expected[0], *expected[1], *other))}) == 9


def test_micro_batches_seed_what_no_block_draws() -> None:
    numbers, _ = drawing()
    found = []
    for update, index in ((0, 0), (0, 1), (0, 0), (1, 0)):
        numbers.begin(update, index)
        found.append(torch.rand(()).item())
    assert found[0] == found[2]
    assert len(set(found)) == 3


def test_evaluation_seeds_nothing() -> None:
    numbers, (module,) = drawing(0)
    numbers.begin(0, 0)
    module.eval()
    torch.manual_seed(1)
    expected = torch.rand(())
    torch.manual_seed(1)
    assert module(torch.zeros(1))[0] == expected
