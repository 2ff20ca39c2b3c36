"""An update is one optimizer step by the mean gradient, at the planned learning rate, with keyed random numbers.

Shape suffixes: B images.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from helpers.plans import small_plan
from torch import Tensor, nn
from torch.nn import functional

from accel_train.config.plan import Plan
from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError
from accel_train.rng import make_key
from accel_train.training import random_numbers
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.ema import Ema
from accel_train.training.gradients import TreeAverage
from accel_train.training.loss import Loss, Targets
from accel_train.training.metrics import Sums
from accel_train.training.micro_batches import MicroBatch
from accel_train.training.optimizers import LR_FACTOR
from accel_train.training.random_numbers import RandomNumbers
from accel_train.training.timing import Timing
from accel_train.training.updater import Updater

RANK, SEED = 1, 7


class OneProcess(DDP):
    """DDP without Accelerate."""

    def no_sync(self, accelerator: Any, model: nn.Module) -> Any:
        return accelerator.no_sync(model)


@contextmanager
def nothing(*_: Any) -> Iterator[None]:
    yield


def make_net() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def sgd(net: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([{"params": [*net.parameters()], LR_FACTOR: 1.0}], lr=0.0)


def make_updater(net: nn.Module, plan: Plan, order: list[str] | None = None, **changes: Any) -> Updater:
    """Return an updater with SGD and a tree over the micro-batches; `order` records its phases."""
    recorded = [] if order is None else order
    accelerator: Any = SimpleNamespace(
        process_index=RANK,
        scaler=None,
        no_sync=nothing,
        backward=lambda loss: loss.backward(),
        unscale_gradients=lambda optimizer: None,
    )
    timing = Timing()

    @contextmanager
    def span(phase: str) -> Iterator[None]:
        recorded.append(phase)
        yield

    timing.span = span
    timing.start()
    optimizer: Any = SimpleNamespace(optimizer=sgd(net))
    # The tree is that of a single process: gradients are not exchanged here.
    alone: Any = SimpleNamespace(process_index=0, no_sync=nothing)
    batch_norm = BatchNormBuffers(net)
    values: dict[str, Any] = {
        "accelerator": accelerator,
        "model": net,
        "prepared_optimizer": optimizer,
        "strategy": OneProcess(),
        "gradients": TreeAverage(alone, OneProcess(), net, batch_norm, plan),
        "batch_norm": batch_norm,
        "ema": None,
        "plan": plan,
        "own": plan.blocks[0],
        "random_numbers": RandomNumbers(SEED),
        "loss": Loss(0.1),
        "clip_norm": None,
        "epoch_sums": Sums(torch.device("cpu")),
        "timing": timing,
        "tick": lambda: recorded.append("tick"),
    }
    return Updater(**values | changes)


def batch(number: int, size: int = 2) -> MicroBatch:
    generator = torch.Generator().manual_seed(number)
    indices_B = torch.arange(size) + size * number
    images, labels_B = torch.randn(size, 4, generator=generator), torch.randint(3, (size,), generator=generator)
    return MicroBatch(images, Targets(labels_B), indices_B)


def do_update(updater: Updater, update: int) -> tuple[list[Tensor], Tensor | None]:
    reads = (batch(10 * update + m) for m in count())
    updated = updater.update(reads, update)
    assert next(reads).sample_indices_B[0] == 2 * (10 * update + updater.plan.accumulate)  # not one read too many
    return updated.losses, updated.norm


def test_updates_equal_hand_computation() -> None:
    net, by_hand = make_net(), make_net()
    updater = make_updater(net, small_plan(accumulate=3))
    for update, lr in ((0, 0.5), (1, 0.375), (2, 0.25)):  # linear from 0.5 to 0 in 4 updates
        losses, norm = do_update(updater, update)
        assert norm is None
        by_hand.zero_grad()
        expected = []
        for m in range(3):
            images_B, (labels_B, *_), _ = batch(10 * update + m)
            loss = functional.cross_entropy(by_hand(images_B), labels_B, label_smoothing=0.1)
            expected.append(loss.detach())
            (loss / 3).backward()
        torch.testing.assert_close(losses, expected)
        assert not any(loss.requires_grad for loss in losses)
        assert DDP().gradient_norm(net.parameters()) == pytest.approx(DDP().gradient_norm(by_hand.parameters()))
        with torch.no_grad():
            for parameter in by_hand.parameters():
                assert parameter.grad is not None
                parameter.sub_(lr * parameter.grad)
        for parameter, value in zip(net.parameters(), by_hand.parameters(), strict=True):
            torch.testing.assert_close(parameter, value)
    assert updater.epoch_sums.tensor[3] == 3 * 3 * 2
    assert updater.timing._images == 2 * 6  # the first update does not count


def test_parameter_group_has_its_factor_of_the_learning_rate() -> None:
    net = make_net()
    before = [p.detach().clone() for p in net.parameters()]
    groups = [{"params": [net.weight], LR_FACTOR: 0.5}, {"params": [net.bias], LR_FACTOR: 10.0}]
    optimizer: Any = SimpleNamespace(optimizer=torch.optim.SGD(groups, lr=0.0))
    do_update(make_updater(net, small_plan(), prepared_optimizer=optimizer), 0)
    for parameter, old, lr in zip(net.parameters(), before, (0.25, 5.0), strict=True):
        torch.testing.assert_close(parameter.detach(), old - lr * parameter.grad)


def test_hits_of_mixed_images_are_those_of_the_larger_share() -> None:
    images = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))
    answers = make_net()(images).argmax(dim=1)
    for labels_B, hits in ((answers, 2), ((answers + 1) % 3, 0)):
        updater = make_updater(make_net(), small_plan())
        mixed = MicroBatch(images, Targets(labels_B, (labels_B + 1) % 3, 0.4), torch.arange(2))
        updater.update(iter([mixed]), 0)
        assert updater.epoch_sums.tensor[1] == hits


def test_gradient_is_clipped_once_per_update() -> None:
    net = make_net()
    before = [p.detach().clone() for p in net.parameters()]
    _, norm = do_update(make_updater(net, small_plan(accumulate=2), clip_norm=0.01), 0)
    assert norm is not None
    assert norm > 0.1
    moved = torch.cat([(p - old).flatten() for p, old in zip(net.parameters(), before, strict=True)]).norm()
    assert moved.item() == pytest.approx(0.5 * 0.01, rel=1e-3)


def test_measured_norm_is_that_before_the_step_which_may_write_into_gradients() -> None:
    """torch's SGD with Nesterov momentum adds the momentum to the gradients of parameters without weight decay."""
    norms = []
    for measured in (True, False):
        net = make_net()
        groups = [{"params": [*net.parameters()], LR_FACTOR: 1.0}]
        torchs = torch.optim.SGD(groups, lr=0.0, momentum=0.9, nesterov=True, foreach=True)
        updater = make_updater(net, small_plan(), prepared_optimizer=SimpleNamespace(optimizer=torchs))
        updated = updater.update(iter([batch(0)]), 0, measured=measured)
        norms.append(updated.norm)
    by_hand = make_net()
    images_B, (labels_B, *_), _ = batch(0)
    functional.cross_entropy(by_hand(images_B), labels_B, label_smoothing=0.1).backward()
    assert norms[0] == pytest.approx(DDP().gradient_norm(by_hand.parameters()))
    assert norms[1] is None
    assert DDP().gradient_norm(net.parameters()) == pytest.approx(1.9 * norms[0])


def test_ema_follows_the_updated_weights() -> None:
    net = make_net()
    ema = Ema(net, 0.75, DDP())
    before = net.weight.detach().clone()
    do_update(make_updater(net, small_plan(), ema=ema), 0)
    torch.testing.assert_close(ema.tensors()["weight"], 0.75 * before + 0.25 * net.weight.detach())


def test_random_numbers_are_keyed_by_update_and_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[int] = []
    monkeypatch.setattr(random_numbers, "seed_libraries", keys.append)
    updater = make_updater(make_net(), small_plan(accumulate=3), own=range(3, 6))
    for update in (0, 1):
        do_update(updater, update)
    assert keys == [make_key(SEED, "update", update, index) for update in (0, 1) for index in (3, 4, 5)]


def test_watchdog_ticks_before_each_backward_pass() -> None:
    order: list[str] = []
    do_update(make_updater(make_net(), small_plan(accumulate=2), order), 0)
    assert order == [*("forward", "tick", "backward") * 2, "optimizer"]


def test_watchdog_ticks_as_often_for_fewer_micro_batches_before_the_last_backward_pass() -> None:
    plan = small_plan(processes=3, global_batch=14)
    assert plan.blocks == (range(3), range(3, 5), range(5, 7))
    order: list[str] = []
    ignoring: Any = SimpleNamespace(by_strategy=True, take=lambda: None, finish=lambda: None)
    do_update(make_updater(make_net(), plan, order, own=plan.blocks[1], gradients=ignoring), 0)
    assert order == ["forward", "tick", "backward", "forward", "tick", "tick", "backward", "optimizer"]


def test_gradients_stay_readable_until_the_next_update() -> None:
    net = make_net()
    updater = make_updater(net, small_plan(accumulate=2))
    do_update(updater, 0)
    assert all(p.grad is not None and p.grad.any() for p in net.parameters())


@pytest.mark.parametrize("update", [0, 2])  # the first of an epoch of two updates
def test_unused_parameter_is_rejected_in_the_first_update_of_an_epoch(update: int) -> None:
    class Spare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = make_net(), nn.Linear(1, 1)

        def forward(self, images_B: Tensor) -> Tensor:
            logits_BK: Tensor = self.used(images_B)
            return logits_BK

    ignoring: Any = SimpleNamespace(by_strategy=True, take=lambda: None, finish=lambda: None)
    updater = make_updater(Spare(), small_plan(accumulate=2), gradients=ignoring)
    do_update(updater, update + 1)  # not the first update: not checked
    with pytest.raises(UserError, match=r"parameter spare\.weight and 1 more"):
        do_update(updater, update)


@pytest.mark.parametrize("collective", [False, True])
def test_process_with_fewer_micro_batches_takes_part_only_in_collective_passes(collective: bool) -> None:
    """Three micro-batches on two processes: the second one has one, and reads two."""

    class Recording(OneProcess):
        collective_forward = collective

        def no_sync(self, accelerator: Any, model: nn.Module) -> Any:
            quiet.append(len(taken))
            return nothing()

    quiet: list[int] = []
    net, taken = make_net(), list[Tensor]()
    recording: Any = SimpleNamespace(
        by_strategy=True, take=lambda: taken.append(net.weight.grad.clone()), finish=lambda: None
    )
    plan = small_plan(processes=2, global_batch=6)
    assert plan.blocks == (range(2), range(2, 3))
    updater = make_updater(net, plan, strategy=Recording(), gradients=recording, own=plan.blocks[1], clip_norm=None)
    losses, _ = do_update(updater, 0)
    assert quiet == ([0] if collective else [])  # the strategy communicates in the last pass only
    assert len(losses) == len(taken) == 1
    assert net.weight.grad is not None
    assert torch.equal(net.weight.grad, taken[0])  # what has no weight adds nothing
    assert updater.epoch_sums.tensor[3] == 2


def test_loss_scaler_needs_accelerates_step() -> None:
    steps: list[str] = []
    net = make_net()
    torchs = sgd(net)
    torchs.register_step_pre_hook(lambda *_: steps.append("torch"))
    prepared: Any = SimpleNamespace(optimizer=torchs, step=lambda: steps.append("Accelerate"))
    for scaler, expected in ((None, "torch"), (object(), "Accelerate")):
        updater = make_updater(net, small_plan(), prepared_optimizer=prepared)
        updater.accelerator.scaler = scaler
        do_update(updater, 0)
        assert steps.pop() == expected
        assert not steps
