"""Checkpointed blocks compute the same weights, gradients and statistics, and keep less for the backward pass."""

import copy
import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torchvision
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.models.networks import cnn, wide_resnet
from accel_train.training.activation_checkpointing import checkpoint_blocks
from accel_train.training.batch_norm import BatchNormBuffers


class Block(nn.Module):
    """A residual block with BatchNorm that draws from the generators of torch, Python and numpy."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3))
        self.scaled = nn.Conv2d(4, 4, 1)

    def forward(self, images_BCHW: Tensor, *, add: float = 0.0) -> Tensor:
        drawn = random.random() + np.random.rand() + add
        images_BCHW = images_BCHW + self.layers(images_BCHW) * drawn
        scaled: Tensor = torch.relu(self.scaled(images_BCHW)) * torch.rand(1)
        return scaled


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, images_BCHW: Tensor) -> Tensor:
        for block in self.blocks:
            images_BCHW = block(images_BCHW, add=0.5)
        return images_BCHW.mean((2, 3))


MODELS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "all generators": (Net, 4),
    "wide_resnet": (lambda: wide_resnet(10, 3, depth=10, width=1), 3),
    "resnet18": (lambda: torchvision.models.resnet18(num_classes=10), 3),
    "densenet121": (lambda: torchvision.models.densenet121(num_classes=10, drop_rate=0.1), 3),
    "swin_t": (lambda: torchvision.models.swin_t(num_classes=10), 3),
}


def train(model: nn.Module, channels: int, size: int) -> tuple[dict[str, Tensor], list[tuple[float, ...]]]:
    """Do two updates of two micro-batches; return weights, buffers and gradients, and the numbers drawn next."""
    batch_norm, optimizer = BatchNormBuffers(model), torch.optim.SGD(model.parameters(), lr=0.1)
    drawn = []
    for update in range(2):
        optimizer.zero_grad()
        changes = []
        for m in range(2):
            seed = 2 * update + m
            random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
            batch_norm.begin_micro_batch()
            output = model(torch.randn(2, channels, size, size))
            batch_norm.end_micro_batch()
            output.square().mean().backward()
            changes.append(batch_norm.take_change())
            drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
        batch_norm.end_update(torch.stack(changes).sum(0), 2)
        optimizer.step()
    gradients = {f"gradient of {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {name: t.detach().clone() for name, t in (model.state_dict() | gradients).items()}, drawn


@pytest.mark.parametrize("name", MODELS)
def test_updates_are_bit_identical_and_statistics_counted_once(name: str) -> None:
    build, channels = MODELS[name]
    torch.manual_seed(0)
    plain = build()
    checkpointed = copy.deepcopy(plain)
    checkpoint_blocks(checkpointed, name)
    expected, drawn = train(plain, channels, 32)
    found, drawn_too = train(checkpointed, channels, 32)
    assert found.keys() == expected.keys()
    assert [key for key in expected if not torch.equal(found[key], expected[key])] == []
    assert drawn_too == drawn
    counters = {int(value) for key, value in found.items() if key.endswith("num_batches_tracked")}
    assert counters <= {2}
    assert bool(counters) == (name != "swin_t")


def saved_bytes(model: nn.Module, images: Tensor) -> int:
    """Return the size of what a forward pass keeps for the backward pass, weights excluded."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        output = model(images)
    assert output.requires_grad
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return sum(size for pointer, size in kept.items() if pointer not in weights)


def test_less_is_kept_for_the_backward_pass() -> None:
    torch.manual_seed(0)
    model, images = torchvision.models.resnet50(num_classes=10), torch.randn(2, 3, 64, 64)
    whole = saved_bytes(model, images)
    checkpoint_blocks(model, "resnet50")
    assert saved_bytes(model, images) < 0.5 * whole


def test_evaluation_and_passes_without_gradients_are_not_checkpointed(monkeypatch: pytest.MonkeyPatch) -> None:
    net, calls = Net(), []
    checkpoint_blocks(net, "net")
    module = "accel_train.training.activation_checkpointing.checkpoint"
    monkeypatch.setattr(module, lambda function, *args, **_: calls.append(function) or args[1])
    net.eval()(torch.randn(1, 4, 8, 8))
    with torch.no_grad():
        net.train()(torch.randn(1, 4, 8, 8))
    assert calls == []
    net(torch.randn(1, 4, 8, 8))
    assert len(calls) == 3


def test_names_of_weights_and_classes_stay() -> None:
    net = torchvision.models.resnet18()
    names, text = list(net.state_dict()), repr(net)
    checkpoint_blocks(net, "resnet18")
    assert list(net.state_dict()) == names
    assert repr(net) == text
    assert type(net.layer1[0]) is type(net.layer2[0])
    assert isinstance(copy.deepcopy(net).layer1[0], torchvision.models.resnet.BasicBlock)


def test_model_without_blocks_is_rejected_by_name() -> None:
    with pytest.raises(UserError) as rejected:
        checkpoint_blocks(cnn(10, 1, 8), "cnn")
    assert rejected.value.message == "--activation-checkpointing has no effect on cnn: no part of it repeats"
    assert rejected.value.hint == "leave it out, or choose a model of blocks, such as a ResNet or a transformer"


class Changing(nn.Linear):
    """A block that changes its input in place."""

    def __init__(self) -> None:
        super().__init__(4, 4)
        self.inner = nn.Linear(4, 4)

    def forward(self, features_BC: Tensor) -> Tensor:
        features_BC.mul_(2)
        return self.inner(super().forward(features_BC))


def test_block_whose_input_changes_in_place_is_rejected() -> None:
    net = nn.Sequential(nn.Linear(4, 4), Changing(), Changing())
    checkpoint_blocks(net, "net")
    output = net(torch.ones(2, 4))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()
