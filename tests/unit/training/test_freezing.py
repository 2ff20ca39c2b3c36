"""Frozen layers run as in evaluation and do not train, for some epochs or for the whole run."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError
from accel_train.training.freezing import Freezing, freeze

LAYERS = [
    ["0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"],
    ["4.0.weight", "4.0.bias"],
]


class Recording(DDP):
    """DDP without Accelerate, which records the parameters that train when it is told that they have changed."""

    def __init__(self) -> None:
        self.trained: list[list[str]] = []

    def plain_model(self, accelerator: Any, model: nn.Module) -> nn.Module:  # type: ignore[override]
        return model

    def trainable_changed(self, accelerator: Any, model: nn.Module) -> None:
        self.trained.append(trained(model))


def make_net() -> nn.Sequential:
    inner = nn.Sequential(nn.Linear(4, 5), nn.Dropout())
    return nn.Sequential(
        *(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(inner, nn.Dropout(), nn.Linear(5, 2)),
    )


def trained(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def training(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if module.training]


def begin(freezing: Freezing, epochs: Sequence[int], net: nn.Module) -> Recording:
    strategy = Recording()
    for epoch in epochs:
        freezing.begin_epoch(epoch, SimpleNamespace(), strategy, net)  # type: ignore[arg-type]
    return strategy


def test_frozen_layers_do_not_train_and_run_as_in_evaluation() -> None:
    net = make_net()
    freezing = freeze(net, LAYERS, 1, None, "net")
    freezing.exclude(net)
    strategy = begin(freezing, [0, 1], net.eval())
    assert trained(net) == ["4.0.weight", "4.0.bias", "6.weight", "6.bias"]
    assert training(net) == ["", "2", "3", "4", "4.0", "4.1", "5", "6"]
    assert strategy.trained == []
    assert (freezing.constant, freezing.later) == ({*LAYERS[0]}, frozenset())


def test_dropout_inside_and_before_frozen_layers_is_off_and_that_before_the_head_is_on() -> None:
    net = make_net()
    freezing = freeze(net, LAYERS, None, None, "net")
    begin(freezing, [0], net)
    assert training(net) == ["", "5", "6"]


def test_layers_train_after_some_epochs_and_not_again_after_going_back() -> None:
    net = make_net()
    freezing = freeze(net, LAYERS, None, 2, "net")
    freezing.exclude(net)
    assert (freezing.constant, freezing.later) == (frozenset(), freezing.trainable)
    everything, head = trained(net), ["6.weight", "6.bias"]
    assert len(everything) == 8
    assert begin(freezing, [0, 1], net).trained == [head]
    assert training(net) == ["", "5", "6"]
    assert begin(freezing, [2, 3], net).trained == [everything]
    assert len(training(net)) == 1 + 7 + 2
    assert begin(freezing, [1], net).trained == [head]


def test_gradients_of_layers_that_are_frozen_again_are_dropped() -> None:
    net = make_net()
    net(torch.randn(2, 3, 8, 8)).sum().backward()
    begin(freeze(net, LAYERS, None, 1, "net"), [0], net)
    assert [name for name, parameter in net.named_parameters() if parameter.grad is not None] == ["6.weight", "6.bias"]


def test_parameters_that_the_model_itself_does_not_train_are_never_trained() -> None:
    net = make_net()
    net[0].bias.requires_grad_(False)
    freezing = freeze(net, LAYERS, None, 1, "net")
    begin(freezing, [0, 1], net)
    assert "0.bias" not in trained(net)
    assert len(trained(net)) == 7


def test_without_frozen_layers_all_of_a_model_trains() -> None:
    net = make_net().eval()
    assert begin(Freezing(), [0], net).trained == []
    assert len(training(net)) == 1 + 7 + 2
    assert len(trained(net)) == 8


def test_model_that_is_a_head_only_is_refused() -> None:
    with pytest.raises(UserError, match="--freeze has no effect on net: it has no layers before its head"):
        freeze(nn.Linear(2, 2), [], None, None, "net")


def test_more_layers_than_the_model_has_are_refused() -> None:
    with pytest.raises(UserError) as caught:
        freeze(make_net(), LAYERS, 3, None, "net")
    assert caught.value.message == "--freeze 3: net has 2 layers before its head"
    assert caught.value.hint == "give --freeze 2 or less, or --freeze backbone for all of them"
