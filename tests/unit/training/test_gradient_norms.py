"""The norms of micro-batches are those of their own gradients, and measuring changes nothing else.

Shape suffixes: B images.
"""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.plans import small_plan
from torch import Tensor, nn

from accel_train.config.plan import Plan
from accel_train.distributed.strategies.ddp import DDP
from accel_train.training.gradient_norms import GradientNorms
from accel_train.training.noise_scale import estimate, noise_scale


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))


def alone(scaler: Any = None) -> Any:
    """Return what stands for the Accelerator of a single process."""
    return SimpleNamespace(process_index=0, scaler=scaler)


def backward(net: nn.Module, m: int, factor: float = 1.0) -> None:
    images_B = torch.randn(2, 4, generator=torch.Generator().manual_seed(m))
    (factor * net(images_B).square().sum()).backward()  # type: ignore[no-untyped-call]


def mean_square(net: nn.Module, plan: Plan, count: int = 3) -> float:
    norms = GradientNorms(alone(), DDP(), net, plan)
    norms.begin()
    for m in range(count):
        with norms.measured(m):
            backward(net, m)
    return norms.mean_square()


def squares_by_hand(count: int) -> list[float]:
    found = []
    for m in range(count):
        backward(net := make_net(), m)
        found.append(sum(float(p.grad.square().sum()) for p in net.parameters() if p.grad is not None))
    return found


def test_mean_square_is_that_of_each_micro_batch_alone() -> None:
    assert mean_square(make_net(), small_plan(accumulate=3)) == pytest.approx(sum(squares_by_hand(3)) / 3, rel=1e-6)


def test_measuring_does_not_change_gradients() -> None:
    measured, plain = make_net(), make_net()
    mean_square(measured, small_plan(accumulate=3))
    for m in range(3):
        backward(plain, m)
    backward(measured, 3)
    backward(plain, 3)
    for mine, other in zip(measured.parameters(), plain.parameters(), strict=True):
        assert mine.grad is not None
        assert other.grad is not None
        assert torch.equal(mine.grad, other.grad)


def test_frozen_parameters_have_no_norm() -> None:
    net = make_net()
    plan = small_plan(accumulate=2)
    norms = GradientNorms(alone(), DDP(), net, plan)
    found = []
    for frozen in (True, False):
        net[0].requires_grad_(not frozen)
        norms.begin()
        for m in range(plan.micro_batches):
            with norms.measured(m):
                backward(net, m)
        found.append(norms.mean_square())
    assert 0 < found[0] < found[1] == pytest.approx(sum(squares_by_hand(2)) / 2, rel=1e-6)


def test_an_update_forgets_the_one_before() -> None:
    net, plan = make_net(), small_plan(accumulate=2)
    norms = GradientNorms(alone(), DDP(), net, plan)
    found = []
    for factor in (10.0, 1.0):
        norms.begin()
        for m in range(2):
            with norms.measured(m):
                backward(net, m, factor)
        found.append(norms.mean_square())
    assert found[0] == pytest.approx(100 * found[1])


def test_parameters_of_other_processes_are_left_to_them() -> None:
    class Stage(DDP):
        def gradient_leaves(self, model: nn.Module) -> list[Tensor | None]:  # type: ignore[override]
            return [None, *model[2].parameters()]  # type: ignore[index]

    net, plan = make_net(), small_plan(accumulate=2)
    norms = GradientNorms(alone(), Stage(), net, plan)
    norms.begin()
    for m in range(2):
        with norms.measured(m):
            backward(net, m)
    whole = sum(squares_by_hand(2)) / 2
    assert 0 < norms.mean_square() < whole


def test_loss_scale_of_fp16_is_divided_out() -> None:
    scaler: Any = SimpleNamespace(get_scale=lambda: 1024.0)
    net, plan = make_net(), small_plan(accumulate=2)
    norms = GradientNorms(alone(scaler), DDP(), net, plan)
    norms.begin()
    for m in range(2):
        with norms.measured(m):
            backward(net, m, factor=1024.0)
    assert norms.mean_square() == pytest.approx(sum(squares_by_hand(2)) / 2, rel=1e-6)


def test_noise_scale_of_a_quadratic_lies_in_its_interval() -> None:
    """The gradient of 0.5 |w - x|² is w - x; x has a normal distribution of variance 0.25 in each of 30 directions."""
    plan, generator = small_plan(accumulate=8, batch_size=4), torch.Generator().manual_seed(0)
    weight = nn.Parameter(torch.full((30,), 0.3))
    norms = GradientNorms(alone(), DDP(), nn.ParameterList([weight]), plan)
    shares = []
    for _ in range(20):
        weight.grad = None
        norms.begin()
        for m in range(8):
            with norms.measured(m):
                images_B = 0.5 * torch.randn(4, 30, generator=generator)
                (0.5 * (weight - images_B).square().sum() / 4).backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        large = float((weight.grad / 8).square().sum())
        shares.append(estimate(norms.mean_square(), large, plan.batch_size, plan.global_batch).share(plan.batch_size))
    found, true = noise_scale(shares, plan.batch_size), 30 * 0.25 / (30 * 0.3**2)
    assert found is not None
    assert found.high is not None
    assert found.low < true < found.high
    assert found.high < 1.5 * found.low
