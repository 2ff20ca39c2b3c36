"""LARS equals timm's; weights move in proportion to their norm, biases and norms as by SGD."""

import pytest
import timm.optim
import torch
from helpers.optimizing import largest_difference, one_update, trained
from torch import nn

from accel_train.training.lars import LARS


def reference() -> list[torch.Tensor]:
    return trained(lambda groups: timm.optim.Lars(groups, momentum=0.9, trust_coeff=0.02), lr=1.0)


def test_fifty_updates_equal_those_of_timm() -> None:
    found = trained(lambda groups: LARS(groups, lr=0.0, trust_coefficient=0.02), lr=1.0)
    assert largest_difference(found, reference()) < 1e-12


def test_fifty_updates_in_fp32_equal_those_of_timm_in_fp64() -> None:
    found = trained(lambda groups: LARS(groups, lr=0.0, trust_coefficient=0.02), lr=1.0, dtype=torch.float32)
    assert largest_difference(found, reference()) < 1e-4


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_step_of_a_weight_is_a_share_of_its_norm_whatever_its_gradient(scale: float, decay: float) -> None:
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    gradient = torch.tensor([[4.0, 3.0]], dtype=torch.float64)
    optimizer = LARS([{"params": [weight], "weight_decay": decay}], lr=0.0, trust_coefficient=0.01, eps=0.0)
    one_update(optimizer, 0.5, {weight: scale * gradient})
    decayed = (scale * gradient + decay * torch.tensor([[3.0, 4.0]])) / (scale + decay)
    assert torch.allclose(weight, torch.tensor([[3.0, 4.0]], dtype=torch.float64) - 0.5 * 0.01 * decayed, atol=1e-12)


def test_biases_and_norms_take_the_steps_of_sgd() -> None:
    bias = nn.Parameter(torch.tensor([3.0, 4.0]))
    optimizer = LARS([bias], lr=0.0, trust_coefficient=0.01)
    for _ in range(2):
        one_update(optimizer, 0.5, {bias: torch.tensor([1.0, 2.0])})
    assert torch.allclose(bias, torch.tensor([3.0, 4.0]) - 0.5 * (1 + 1.9) * torch.tensor([1.0, 2.0]))


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 2.0), (2.0, 0.0)])
def test_trust_ratio_is_1_where_a_norm_is_zero(weight: float, gradient: float) -> None:
    parameter = nn.Parameter(torch.full((1, 2), weight))
    one_update(LARS([parameter], lr=0.0), 0.5, {parameter: torch.full((1, 2), gradient)})
    assert torch.equal(parameter, torch.full((1, 2), weight - 0.5 * gradient))


def test_parameters_without_gradients_are_left_alone() -> None:
    frozen, trains = nn.Parameter(torch.ones(1, 2)), nn.Parameter(torch.ones(1, 2))
    optimizer = LARS([frozen, trains], lr=0.0)
    one_update(optimizer, 0.5, {trains: torch.ones(1, 2)})
    assert torch.equal(frozen, torch.ones(1, 2))
    assert [*optimizer.state] == [trains]
    frozen.grad = trains.grad = None
    optimizer.step()
