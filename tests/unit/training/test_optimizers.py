"""Optimizers decay weights but not norms and biases; their first updates equal the formulas."""

import pytest
import torch
from torch import nn

from accel_train.config.optimizers import OPTIMIZERS
from accel_train.models.build import build_model
from accel_train.training.optimizers import HIDDEN, LR_FACTOR, SpecialParameters, build_optimizer, hidden_matrices


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
def test_frozen_parameters_and_empty_groups_are_left_out(name: str) -> None:
    model = net()
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim > 1)
    model[0].weight.requires_grad_(False)
    (group,) = built(name, model).param_groups
    assert group["params"] == [model[3].weight]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_have_a_group_by_factor_of_the_learning_rate_and_weight_decay(name: str) -> None:
    model, factors = net(), {"0.weight": 0.5, "0.bias": 0.5, "1.weight": 0.5, "3.weight": 10.0}
    optimizer = build_optimizer(
        name, model, weight_decay=0.25, betas=(0.8, 0.96), eps=1e-3, special=SpecialParameters(factors)
    )
    names = {parameter: name for name, parameter in model.named_parameters()}
    found = {(g[LR_FACTOR], g["weight_decay"]): [names[p] for p in g["params"]] for g in optimizer.param_groups}
    assert found == {
        (0.5, 0.25): ["0.weight"],
        (10.0, 0.25): ["3.weight"],
        (0.5, 0.0): ["0.bias", "1.weight"],
        (1.0, 0.0): ["1.bias", "3.bias", "4.weight", "4.bias"],
    }


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_parameters_that_begin_to_train_later_are_updated_from_then_on(name: str, fused: bool) -> None:
    """torch's fused SGD takes no group in which only some parameters have momentum."""
    model, later = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), {"0.weight", "0.bias"}
    optimizer = build_optimizer(
        name, model, weight_decay=0.25, betas=(0.8, 0.96), eps=1e-3, fused=fused, special=SpecialParameters(later=later)
    )
    assert [len(group["params"]) for group in optimizer.param_groups] == [1, 1, 1, 1]
    for group in optimizer.param_groups:
        group["lr"] = 0.1
    before = [p.detach().clone() for p in model.parameters()]
    for trained in (model[1], model):
        optimizer.zero_grad()
        for parameter in trained.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        changed = [not torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True)]
        assert changed == [trained is model, trained is model, True, True]


def stepped(name: str, updates: int) -> tuple[float, float]:
    """Return a weight and a bias, initially 2, after updates with gradients of 1 and a learning rate of 0.1."""
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


def test_sgd_has_nesterov_momentum_of_09_and_decay_in_the_gradient() -> None:
    assert stepped("sgd", 3) == pytest.approx((nesterov(0.25), nesterov(0.0)), rel=1e-6)


def test_adamw_decays_weights_outside_the_gradient() -> None:
    """A constant gradient of 1 makes both bias-corrected moments 1."""
    move = 0.1 / (1 + 1e-3)
    weight = bias = 2.0
    for _ in range(3):
        weight, bias = weight * (1 - 0.1 * 0.25) - move, bias - move
    assert stepped("adamw", 3) == pytest.approx((weight, bias), rel=1e-5)


def test_adamw_takes_betas_and_epsilon() -> None:
    for group in built("adamw", net()).param_groups:
        assert (group["betas"], group["eps"]) == ((0.8, 0.96), 1e-3)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", [name for name, spec in OPTIMIZERS.items() if spec.has_kernels])
def test_optimizer_is_fused_or_foreach(name: str, fused: bool) -> None:
    optimizer = build_optimizer(name, net(), weight_decay=0.25, betas=(0.8, 0.96), eps=1e-3, fused=fused)
    assert (optimizer.defaults["fused"], optimizer.defaults["foreach"]) == (fused, not fused)


@pytest.mark.parametrize(
    ("model", "size", "others"),
    [
        ("cnn", 28, {"0.weight", "9.weight"}),
        ("timm:vit_tiny_patch16_224", 224, {"cls_token", "pos_embed", "patch_embed.proj.weight", "head.weight"}),
        ("mobilenet_v2", 64, {"features.0.0.weight", "classifier.1.weight"}),
    ],
)
def test_hidden_matrices_are_all_but_the_first_and_the_last(model: str, size: int, others: set[str]) -> None:
    module = build_model(model, classes=10, channels=1, data_size=28, image_size=size).module
    weights = {name: p for name, p in module.named_parameters() if p.ndim > 1}
    found = hidden_matrices(module)
    depthwise = {name for name, p in weights.items() if p.shape[1] == 1}
    assert weights.keys() - found == others | depthwise
    assert (len(depthwise) > 10) == (model == "mobilenet_v2")


def test_only_muon_has_groups_of_hidden_matrices() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4), nn.Linear(4, 2))
    found = {name: [g["params"] for g in built(name, model).param_groups if g.get(HIDDEN)] for name in OPTIMIZERS}
    assert found.pop("muon") == [[model[1].weight]]
    assert set(map(len, found.values())) == {0}


def test_hidden_matrices_of_a_model_that_is_cut_are_given() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    optimizer = build_optimizer(
        "muon",
        model,
        weight_decay=0,
        betas=(0.9, 0.999),
        eps=1e-8,
        special=SpecialParameters(hidden={"1.weight", "2.weight"}),
    )
    assert [g["params"] for g in optimizer.param_groups if g[HIDDEN]] == [[model[1].weight]]
