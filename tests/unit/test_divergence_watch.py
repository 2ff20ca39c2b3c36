"""The first loss that is no number is remembered, and such weights are found, whichever process has them."""

import pytest
import torch
from torch import nn

from accel_train.divergence import Diverged, Divergence

CPU = torch.device("cpu")


def watch(norm: float = 3.0) -> tuple[nn.Module, Divergence]:
    """Return a module whose gradient has this norm, and what watches it."""
    module = nn.Linear(1, 1)
    for parameter, gradient in zip(module.parameters(), (norm, 0.0), strict=True):
        parameter.grad = torch.full_like(parameter, gradient)
    return module, Divergence(module, None, CPU)


def test_finite_losses_and_weights_pass() -> None:
    _, divergence = watch()
    for update in range(3):
        divergence.note(torch.tensor(1e300, dtype=torch.float64), update)
    divergence.check(3, 0.1)


@pytest.mark.parametrize("loss", [float("nan"), float("inf"), float("-inf")])
def test_the_first_loss_that_is_no_number_is_named_with_the_state_now(loss: float) -> None:
    _, divergence = watch()
    for update, value in enumerate((1.0, loss, 2.0, loss)):
        divergence.note(torch.tensor(value), update)
    with pytest.raises(Diverged) as found:
        divergence.check(4, 0.125)
    assert found.value.message == (
        "the loss of update 2 is not finite: found after update 4, learning rate 0.125, gradient norm 3"
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
    _, divergence = watch()
    divergence.note(torch.tensor(float("nan")), 0)
    with pytest.raises(Diverged):
        divergence.check(1, 0.1)
    divergence.check(1, 0.1)
