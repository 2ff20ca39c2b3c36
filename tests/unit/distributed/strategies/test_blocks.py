"""The blocks of a model are the outermost modules whose classes repeat."""

import pytest
import torchvision
from accelerate import init_empty_weights
from torch import nn

from accel_train.distributed.strategies.blocks import blocks
from accel_train.models.networks import cnn, mlp, wide_resnet


def kinds(model: nn.Module) -> set[str]:
    return {type(block).__name__ for block in blocks(model)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("resnet18", {"BasicBlock"}),
        ("resnet50", {"Bottleneck"}),
        ("vit_b_16", {"EncoderBlock"}),
        ("swin_t", {"SwinTransformerBlock", "PatchMerging"}),
        ("convnext_tiny", {"CNBlock"}),
        ("efficientnet_b0", {"MBConv"}),
        ("regnet_y_400mf", {"ResBottleneckBlock"}),
        ("densenet121", {"_DenseLayer"}),
        ("alexnet", set()),
    ],
)
def test_blocks_of_torchvision_models_are_what_repeats(name: str, expected: set[str]) -> None:
    with init_empty_weights(include_buffers=False):
        model = torchvision.models.get_model(name, weights=None)
    assert kinds(model) == expected


def test_blocks_of_our_networks_and_of_nested_containers() -> None:
    assert kinds(wide_resnet(10, 1, depth=16, width=1)) == {"_WideBlock"}
    assert blocks(cnn(10, 1, 8)) == blocks(mlp(10, 1, 8)) == []
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    stages = nn.ModuleList([nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) for _ in range(2)])
    assert kinds(stages) == {"TransformerEncoder"}


def test_all_blocks_are_found_once_and_none_is_inside_another() -> None:
    model = torchvision.models.resnet18()
    stages = (model.layer1, model.layer2, model.layer3, model.layer4)
    assert blocks(model) == [block for stage in stages for block in stage]
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    nested = nn.ModuleList([nn.TransformerEncoder(layer, 2, enable_nested_tensor=False) for _ in range(2)])
    nested[0].extra = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    assert blocks(nested) == list(nested)
