"""The first loss that is no number is remembered, and such weights are found, whichever process has them."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import nn

from accel_train.training.metrics import Sums
from accel_train.training.nonfinite import Diverged, Divergence

CPU = torch.device("cpu")


def watch(norm: float = 3.0, losses: Sequence[float] = (), accumulate: int = 1) -> tuple[nn.Module, Divergence]:
    """Return a module whose gradient has this norm, and what watches it and these losses."""
    module, sums = nn.Linear(1, 1), Sums(CPU)
    for parameter, gradient in zip(module.parameters(), (norm, 0.0), strict=True):
        parameter.grad = torch.full_like(parameter, gradient)
    for loss in losses:
        sums.add_batch(torch.tensor(loss, dtype=torch.float64), torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    return module, Divergence(module, None, sums, accumulate)


def test_finite_losses_and_weights_pass() -> None:
    _, divergence = watch(losses=[1e300] * 3)
    divergence.check(3, 0.1)


@pytest.mark.parametrize(("accumulate", "update"), [(1, 7), (2, 8), (3, 9)])
@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_the_first_loss_that_is_no_number_is_named_with_the_state_now(
    loss: float, accumulate: int, update: int
) -> None:
    _, divergence = watch(losses=(1.0, loss, 2.0, loss, 1.0, 2.0), accumulate=accumulate)
    ends = 11 if accumulate == 1 else 10
    with pytest.raises(Diverged) as found:
        divergence.check(ends, 0.125)
    assert found.value.message == (
        f"the loss of update {update} is not finite: found after update {ends}, learning rate 0.125, gradient norm 3"
    )
    assert "--on-nan rollback" in found.value.hint


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_weight_that_is_no_number_is_found(value: float) -> None:
    module, divergence = watch()
    with torch.no_grad():
        module.bias.fill_(value)
    with pytest.raises(Diverged, match="a weight after update 7 is not finite: found after update 7, "):
        divergence.check(7, 0.1)


def test_weights_whose_squares_overflow_are_finite() -> None:
    module, divergence = watch()
    with torch.no_grad():
        module.weight.fill_(3e38)
    divergence.check(1, 0.1)


def test_what_was_found_is_forgotten_for_the_next_attempt() -> None:
    _, divergence = watch(losses=[math.nan])
    with pytest.raises(Diverged):
        divergence.check(1, 0.1)
    divergence.check(1, 0.1)
