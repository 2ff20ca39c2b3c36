"""Both averages give the mean gradient over micro-batches, and a model with an unused parameter is rejected."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.plans import small_plan
from torch import Tensor, nn

from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.gradients import StrategyAverage, TreeAverage, refuse_unused
from accel_train.training.tree_reduce import flat_gradients

ACCUMULATE = 6
ACCELERATOR: Any = SimpleNamespace(process_index=0)


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    net[0].bias.requires_grad_(False)
    return net.double()


def images(micro_batch: int) -> Tensor:
    return torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(micro_batch))


def loss_of(net: nn.Module, micro_batch: int) -> Tensor:
    loss: Tensor = net(images(micro_batch)).square().mean()
    return loss


def expected(updates: int) -> tuple[list[Tensor | None], Tensor]:
    """Return the mean gradients of the last update, and the running mean after the updates, by hand."""
    net = make_net()
    norm = net[1]
    for _ in range(updates):
        net.zero_grad()
        before, means = norm.running_mean.clone(), []
        for micro_batch in range(ACCUMULATE):
            norm.running_mean.copy_(before)
            (loss_of(net, micro_batch) / ACCUMULATE).backward()
            means.append(norm.running_mean.clone())
        norm.running_mean.copy_(torch.stack(means).mean(dim=0))
    return [p.grad for p in net.parameters()], norm.running_mean


@pytest.mark.parametrize("average", [StrategyAverage, TreeAverage])
def test_gradients_and_buffers_are_means_over_micro_batches(average: type[StrategyAverage | TreeAverage]) -> None:
    net = make_net()
    batch_norm = BatchNormBuffers(net)
    gradients = average(ACCELERATOR, DDP(), net, batch_norm, small_plan(accumulate=ACCUMULATE))
    for _ in range(2):
        net.zero_grad()
        for micro_batch in range(ACCUMULATE):
            batch_norm.begin_micro_batch()
            loss = loss_of(net, micro_batch)
            batch_norm.end_micro_batch()
            loss.backward()
            gradients.take()
        gradients.finish()
    by_hand, running_mean = expected(updates=2)
    for parameter, gradient in zip(net.parameters(), by_hand, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(net[1].running_mean, running_mean, rtol=1e-12, atol=1e-14)
    assert gradients.by_strategy == (average is StrategyAverage)


def test_tree_average_adds_in_the_order_of_the_tree() -> None:
    def leaf(micro_batch: int) -> Tensor:
        net = make_net().float()
        net(images(micro_batch).float()).square().mean().backward()
        return flat_gradients([p for p in net.parameters() if p.requires_grad])

    net = make_net().float()
    batch_norm = BatchNormBuffers(net)
    gradients = TreeAverage(ACCELERATOR, DDP(), net, batch_norm, small_plan(accumulate=ACCUMULATE))
    for micro_batch in range(ACCUMULATE):
        batch_norm.begin_micro_batch()
        loss = net(images(micro_batch).float()).square().mean()
        batch_norm.end_micro_batch()
        loss.backward()
        gradients.take()
    gradients.finish()
    a, b, c, d, e, f = map(leaf, range(ACCUMULATE))
    total = (((a + b) + (c + d)) + (e + f)) / ACCUMULATE
    assert torch.equal(flat_gradients([p for p in net.parameters() if p.requires_grad]), total)


@pytest.mark.parametrize("average", [StrategyAverage, TreeAverage])
def test_parameters_that_begin_to_train_are_averaged_too(average: type[StrategyAverage | TreeAverage]) -> None:
    net = make_net()
    net[0].requires_grad_(False)
    batch_norm = BatchNormBuffers(net)
    gradients = average(ACCELERATOR, DDP(), net, batch_norm, small_plan(accumulate=ACCUMULATE))
    for trains in (False, True):
        net[0].weight.requires_grad_(trains)
        net.zero_grad()
        for micro_batch in range(ACCUMULATE):
            batch_norm.begin_micro_batch()
            loss = loss_of(net, micro_batch)
            batch_norm.end_micro_batch()
            loss.backward()
            gradients.take()
        gradients.finish()
        assert [p.grad is not None for p in net.parameters()] == [trains, False, True, True, True, True]
    by_hand, _ = expected(updates=2)
    torch.testing.assert_close(net[0].weight.grad, by_hand[0], rtol=1e-12, atol=1e-14)


def test_gradient_norm_is_that_of_all_gradients() -> None:
    net = nn.Linear(2, 1)
    net.weight.grad = torch.tensor([[3.0, 0.0]])
    assert DDP().gradient_norm(net.parameters()).item() == 3.0
    net.bias.grad = torch.tensor([4.0])
    assert DDP().gradient_norm(net.parameters()).item() == 5.0


def test_unused_parameters_are_rejected() -> None:
    net = nn.ModuleDict({"module": nn.ModuleDict({"used": nn.Linear(2, 2), "spare": nn.Linear(2, 2)})})
    net["module"]["used"](torch.ones(1, 2)).sum().backward()
    net["module"]["spare"].bias.requires_grad_(False)
    with pytest.raises(UserError) as one:
        refuse_unused(net)
    assert one.value.message == "the loss does not depend on the model's parameter spare.weight"
    net["module"]["spare"].bias.requires_grad_(True)
    with pytest.raises(UserError, match=r"parameter spare\.weight and 1 more$"):
        refuse_unused(net)
    net["module"]["spare"].requires_grad_(False)
    refuse_unused(net)
