"""LAMB equals timm's; weights move in proportion to their norm, biases and norms as by Adam."""

import pytest
import timm.optim
import torch
from helpers.optimizing import largest_difference, one_update, trained
from torch import nn

from accel_train.training.lamb import LAMB


def test_fifty_updates_equal_those_of_timm() -> None:
    found = trained(lambda groups: LAMB(groups, lr=0.0), lr=0.02)
    expected = trained(lambda groups: timm.optim.Lamb(groups, max_grad_norm=None), lr=0.02)
    assert largest_difference(found, expected) < 1e-9


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_step_of_a_weight_is_a_share_of_its_norm_whatever_its_gradient(scale: float) -> None:
    weight = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    gradient = torch.tensor([[4.0, -3.0]], dtype=torch.float64)
    one_update(LAMB([weight], lr=0.0, eps=0.0), 0.1, {weight: scale * gradient})
    signs = torch.tensor([[1.0, -1.0]], dtype=torch.float64)  # Adam's first update
    assert torch.allclose(weight, torch.tensor([[3.0, 4.0]], dtype=torch.float64) - 0.1 * 5 * signs / 2**0.5)


def test_weight_decay_is_part_of_the_update_whose_norm_counts() -> None:
    weight = nn.Parameter(torch.full((1, 4), 2.0, dtype=torch.float64))
    optimizer = LAMB([{"params": [weight], "weight_decay": 0.5}], lr=0.0, eps=0.0)
    one_update(optimizer, 0.1, {weight: torch.tensor([[1.0, 1.0, -3.0, -3.0]], dtype=torch.float64)})
    assert torch.allclose(weight, 2 - 0.1 * 4 * torch.tensor([[2.0, 2.0, 0.0, 0.0]], dtype=torch.float64) / 8**0.5)


def test_biases_and_norms_take_the_steps_of_adam() -> None:
    steps = []
    for make in (lambda p: LAMB([p], lr=0.0, eps=1e-3), lambda p: torch.optim.Adam([p], lr=0.0, eps=1e-3)):
        bias = nn.Parameter(torch.tensor([3.0, 4.0]))
        optimizer = make(bias)
        for gradient in (1.0, -2.0, 0.5):
            one_update(optimizer, 0.1, {bias: torch.tensor([gradient, 1.0])})
        steps.append(bias.detach())
    assert torch.allclose(*steps, rtol=1e-6)


@pytest.mark.parametrize(("weight", "gradient"), [(0.0, 2.0), (2.0, 0.0)])
def test_trust_ratio_is_1_where_a_norm_is_zero(weight: float, gradient: float) -> None:
    parameter = nn.Parameter(torch.full((1, 2), weight))
    one_update(LAMB([parameter], lr=0.0, eps=1e-12), 0.5, {parameter: torch.full((1, 2), gradient)})
    assert torch.allclose(parameter, torch.full((1, 2), weight - 0.5 * (gradient > 0)))
