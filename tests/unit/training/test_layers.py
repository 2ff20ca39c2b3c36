"""A model is divided into layers by its blocks, and its learning rates decay from the head towards the input."""

import pytest
import torch
import torchvision
from helpers.models import build
from torch import nn

from accel_train.training.layers import layers_before_head, learning_rate_factors

RESNET = ["conv1", *(f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1))]


def names(model: nn.Module) -> list[str]:
    return [name for name, _ in (*model.named_parameters(), *model.named_buffers())]


def starts(layers: list[list[str]]) -> list[str]:
    return [layer[0].rpartition(".")[0] for layer in layers]


def test_layers_of_a_resnet_are_its_stem_and_its_blocks() -> None:
    model = torchvision.models.resnet18(num_classes=3)
    layers = layers_before_head(model, {"fc.weight", "fc.bias"})
    for layer, start in zip(layers, RESNET, strict=True):
        others = ("bn1",) if start == "conv1" else ()
        assert all(name.startswith((f"{start}.", *others)) for name in layer)
    assert "bn1.running_mean" in layers[0]
    assert sorted(name for layer in layers for name in layer) == sorted(set(names(model)) - {"fc.weight", "fc.bias"})


def test_layers_of_a_transformer_are_its_embedding_and_its_blocks_with_the_last_norm() -> None:
    with torch.device("meta"):
        model = torchvision.models.vit_b_16()
    layers = layers_before_head(model, {"heads.head.weight", "heads.head.bias"})
    assert len(layers) == 13
    assert layers[0] == ["class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding"]
    assert layers[12][-2:] == ["encoder.ln.weight", "encoder.ln.bias"]


def test_what_is_between_two_blocks_belongs_to_the_first() -> None:
    with torch.device("meta"):
        model = torchvision.models.convnext_tiny()
    layers = layers_before_head(model, {"classifier.2.weight", "classifier.2.bias"})
    (layer,) = (layer for layer in layers if "features.2.1.weight" in layer)  # between the first two stages
    assert layer[0] == "features.1.2.layer_scale"
    assert layers[-1][-2:] == ["classifier.0.weight", "classifier.0.bias"]


@pytest.mark.parametrize("name", ["densenet121", "efficientnet_b0", "mobilenet_v3_small", "swin_t", "vgg11_bn", "cnn"])
def test_every_tensor_is_in_one_layer_or_the_head(name: str) -> None:
    model = build(name, channels=3, data_size=64).module
    *_, last = model.named_parameters()
    head = {f"{last[0].rpartition('.')[0]}.{kind}" for kind in ("weight", "bias")}
    layers = layers_before_head(model, head)
    assert sorted([*head, *(each for layer in layers for each in layer)]) == sorted(names(model))
    assert len(layers) >= 3


def test_model_without_blocks_has_a_layer_for_each_weight_with_its_norm() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 5), nn.Linear(5, 2))
    assert starts(layers_before_head(model, {"4.weight", "4.bias"})) == ["0", "3"]
    first, _ = layers_before_head(model, {"4.weight", "4.bias"})
    assert first[2:] == ["1.weight", "1.bias", "1.running_mean", "1.running_var", "1.num_batches_tracked"]


def test_learning_rates_decay_from_the_head() -> None:
    factors = learning_rate_factors([["a"], ["b", "c"], ["d"]], {"head"}, layer_decay=0.5, head_multiplier=10)
    assert factors == {"a": 0.125, "b": 0.25, "c": 0.25, "d": 0.5, "head": 10}


def test_learning_rates_are_equal_without_decay() -> None:
    factors = learning_rate_factors([["a"], ["b"]], {"head"}, layer_decay=1.0, head_multiplier=1.0)
    assert set(factors.values()) == {1.0}
