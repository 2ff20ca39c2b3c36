"""Optimizers decay weights and leave norms and biases alone; their first updates are the formulas'."""

import pytest
import torch
from torch import nn

from accel_train.training.optimizers import OPTIMIZERS, build_optimizer


def net() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 3), nn.LayerNorm(3))


def built(name: str, model: nn.Module) -> torch.optim.Optimizer:
    return build_optimizer(name, model, weight_decay=0.25, betas=(0.8, 0.96), eps=1e-3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_norms_and_biases_do_not_decay(name: str) -> None:
    model = net()
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {g["weight_decay"]: sorted(names[p] for p in g["params"]) for g in built(name, model).param_groups}
    assert found == {
        0.25: ["0.weight", "3.weight"],
        0.0: ["0.bias", "1.bias", "1.weight", "3.bias", "4.bias", "4.weight"],
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_frozen_parameters_are_left_out_and_empty_groups_too(name: str) -> None:
    model = net()
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim > 1)
    model[0].weight.requires_grad_(False)
    (group,) = built(name, model).param_groups
    assert group["params"] == [model[3].weight]


def stepped(name: str, updates: int) -> tuple[float, float]:
    """Return a weight and a bias, both 2 at first, after updates with gradients of 1 at a rate of 0.1."""
    model = nn.Linear(1, 1)
    optimizer = built(name, model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(2.0)
            parameter.grad = torch.ones_like(parameter)
    for group in optimizer.param_groups:
        assert group["lr"] == 0.0  # the loop sets it
        group["lr"] = 0.1
    for _ in range(updates):
        optimizer.step()
    return model.weight.item(), model.bias.item()


def nesterov(decay: float) -> float:
    value, velocity = 2.0, 0.0
    for _ in range(3):
        gradient = 1 + decay * value
        velocity = 0.9 * velocity + gradient
        value -= 0.1 * (gradient + 0.9 * velocity)
    return value


def test_sgd_is_nesterovs_with_momentum_09_and_decay_in_the_gradient() -> None:
    assert stepped("sgd", 3) == pytest.approx((nesterov(0.25), nesterov(0.0)), rel=1e-6)


def test_adamw_decays_apart_from_the_gradient() -> None:
    """A constant gradient of 1 makes both moments 1 after their correction."""
    move = 0.1 / (1 + 1e-3)
    weight = bias = 2.0
    for _ in range(3):
        weight, bias = weight * (1 - 0.1 * 0.25) - move, bias - move
    assert stepped("adamw", 3) == pytest.approx((weight, bias), rel=1e-5)


def test_adamw_takes_the_plans_betas_and_epsilon() -> None:
    for group in built("adamw", net()).param_groups:
        assert (group["betas"], group["eps"]) == ((0.8, 0.96), 1e-3)
