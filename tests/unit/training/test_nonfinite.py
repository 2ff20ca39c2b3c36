"""The first non-finite loss is reported with its update, and non-finite weights are found."""

import math
from collections.abc import Sequence

import pytest
import torch
from helpers.plans import small_plan
from torch import nn

from accel_train.config.lr_schedule import Schedule
from accel_train.distributed.strategies.ddp import DDP
from accel_train.training.metrics import Sums
from accel_train.training.nonfinite import Diverged, NonfiniteCheck

CPU = torch.device("cpu")


def watch(norm: float = 3.0, losses: Sequence[float] = (), accumulate: int = 1) -> tuple[nn.Module, NonfiniteCheck]:
    """Return a module whose gradient has this norm, and a check of its weights and these losses."""
    module, sums = nn.Linear(1, 1), Sums(CPU)
    for parameter, gradient in zip(module.parameters(), (norm, 0.0), strict=True):
        parameter.grad = torch.full_like(parameter, gradient)
    for loss in losses:
        sums.add_batch(torch.tensor(loss, dtype=torch.float64), torch.zeros(1, 2), torch.zeros(1, dtype=torch.int64))
    plan = small_plan(accumulate=accumulate, learning_rate=Schedule("linear", peak=1.0, total_updates=16))
    return module, NonfiniteCheck(
        module, DDP(), None, sums, plan, plan.accumulate, hint=lambda updates: f"after {updates} updates"
    )


def test_finite_losses_and_weights_pass() -> None:
    _, nonfinite = watch(losses=[1e300] * 3)
    nonfinite.check(3)


@pytest.mark.parametrize(("accumulate", "update"), [(1, 7), (2, 8), (3, 9)])
@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
def test_first_nonfinite_loss_is_reported_with_current_state(loss: float, accumulate: int, update: int) -> None:
    _, nonfinite = watch(losses=(1.0, loss, 2.0, loss, 1.0, 2.0), accumulate=accumulate)
    last = 11 if accumulate == 1 else 10
    with pytest.raises(Diverged) as found:
        nonfinite.check(last)
    assert found.value.message == (
        f"the loss of update {update} is not finite (learning rate {1 - (update - 2) / 16:.4g}): "
        f"found after update {last}, gradient norm 3"
    )
    assert found.value.hint == f"after {update - 1} updates"
    assert found.value.exit_code == 1


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nonfinite_weight_is_reported(value: float) -> None:
    module, nonfinite = watch()
    with torch.no_grad():
        module.bias.fill_(value)
    with pytest.raises(Diverged) as found:
        nonfinite.check(7)
    assert found.value.message == (
        "a weight after update 7 is not finite (learning rate 0.625): found after update 7, gradient norm 3"
    )
    assert found.value.hint == "after 7 updates"


def test_empty_shard_beside_a_nonfinite_weight_counts_as_finite() -> None:
    module, nonfinite = watch()
    nonfinite._parameters.append(nn.Parameter(torch.empty(0, 2)))
    with torch.no_grad():
        module.weight.fill_(3e38)
        nonfinite.check(1)
        module.weight.fill_(math.nan)
    with pytest.raises(Diverged, match="a weight after update 2 is not finite"):
        nonfinite.check(2)


def test_finite_weights_whose_squares_overflow_pass() -> None:
    module, nonfinite = watch()
    with torch.no_grad():
        module.weight.fill_(3e38)
    nonfinite.check(1)


def test_reported_loss_is_not_reported_again() -> None:
    _, nonfinite = watch(losses=[math.nan])
    with pytest.raises(Diverged):
        nonfinite.check(1)
    nonfinite.check(1)
