"""The blocks of a model, one after another, are its forward pass; what they may share and draw is known."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torchvision.ops import StochasticDepth

from accel_train.errors import UserError
from accel_train.models.build import build_model
from accel_train.models.splitting import in_sequence, may_draw, problem, sequential

COUNTS = {
    **{"cnn": 10, "mlp": 6, "airbench_4_8_8": 23, "wide_resnet_10_1": 9, "wide_resnet_16_1": 12},
    **{"resnet18": 14, "resnext50_32x4d": 22, "vgg11": 29, "convnext_tiny": 30, "vit_b_32": 15, "swin_t": 23},
}
"""Blocks by model, of each family that has any."""


@pytest.mark.parametrize("name", COUNTS)
def test_blocks_in_sequence_give_the_output_of_the_model(name: str) -> None:
    torch.manual_seed(0)
    built = build_model(name, classes=7, channels=3, data_size=32, image_size=None)
    blocks = built.blocks()
    assert len(blocks) == COUNTS[name]
    images_BCHW = torch.randn(2, 3, built.image_size, built.image_size)
    built.module.eval()
    with torch.no_grad():
        x = images_BCHW
        for block in blocks:
            x = block.forward(x)
        assert torch.equal(x, built.module(images_BCHW))
    assert all(isinstance(built.module.get_submodule(block.name), nn.Module) for block in blocks)


@pytest.mark.parametrize("name", ["alexnet", "densenet121", "googlenet", "mobilenet_v2"])
def test_other_families_have_no_blocks_and_are_rejected_by_name(name: str) -> None:
    built = build_model(name, classes=7, channels=3, data_size=64, image_size=None)
    with pytest.raises(UserError, match=f"{name} cannot be cut into stages: its forward pass is not known") as rejected:
        built.blocks()
    assert "a ResNet, VGG, ConvNeXt, ViT or Swin of torchvision, an nn.Sequential" in rejected.value.hint
    assert "pipeline_blocks" in rejected.value.hint


class Named(nn.Module):
    """Names its blocks."""

    pipeline_blocks = ("body", "head")

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(2, 2)
        self.body = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), nn.Linear(2, 2)))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x))
        return logits


def test_named_blocks_and_nested_sequentials_are_flattened() -> None:
    model = Named()
    assert [block.name for block in sequential(model)] == ["body.0", "body.1.0", "body.1.1", "head"]
    assert [block.parts for block in sequential(model)][-1] == ("head",)
    assert sequential(nn.Linear(2, 2)) == []


def test_unknown_name_of_a_block_is_rejected() -> None:
    model = Named()
    model.pipeline_blocks = ("body", "tail")
    with pytest.raises(UserError, match="pipeline_blocks of Named names 'tail', which is none of its modules"):
        sequential(model)


@pytest.mark.parametrize("names", ["body", 3])
def test_names_that_are_no_tuple_are_rejected(names: object) -> None:
    model = Named()
    model.pipeline_blocks = names
    with pytest.raises(UserError, match=f"pipeline_blocks of Named is {names!r}, which is not a tuple of names"):
        sequential(model)


def test_sequential_with_a_forward_pass_of_its_own_is_one_block() -> None:
    class Backwards(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            for part in reversed(list(self)):
                x = part(x)
            return x

    model = nn.Sequential(Backwards(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2))
    assert [block.name for block in sequential(model)] == ["0", "1"]
    assert sequential(Backwards(nn.Linear(2, 2))) == []


def shared_layer() -> nn.Sequential:
    layer = nn.Linear(2, 2)
    return nn.Sequential(layer, nn.ReLU(), layer)


def shared_weight() -> nn.Sequential:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    return model


def shared_dropout() -> nn.Sequential:
    dropout = nn.Dropout()
    return nn.Sequential(nn.Linear(2, 2), dropout, nn.Linear(2, 2), dropout)


def named_twice() -> nn.Module:
    model = Named()
    model.pipeline_blocks = ("body", "head", "head")
    return model


def shared_relu() -> nn.Sequential:
    relu = nn.ReLU()
    return nn.Sequential(nn.Linear(2, 2), relu, nn.Linear(2, 2), relu)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (shared_layer, "its blocks 0 and 2 share a part"),
        (shared_weight, "its blocks 0 and 1 share a part"),
        (shared_dropout, "its blocks 1 and 3 share a part"),
        (named_twice, "its blocks head and head share a part"),
        (shared_relu, None),
    ],
)
def test_blocks_share_neither_parameters_nor_random_numbers(make: Callable[[], nn.Module], expected: str) -> None:
    model = make()
    assert problem(model, sequential(model)) == expected


def test_parameters_outside_the_blocks_are_a_problem() -> None:
    model = Named()
    assert problem(model, in_sequence(model, "body")) == "head.weight is in none of its blocks"
    model.register_buffer("constant", torch.ones(1))
    assert problem(model, sequential(model)) == "constant is in none of its blocks"


class Custom(nn.Module):
    """A user's module, which may draw."""


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.Dropout(0.1), True),
        (nn.Dropout(0.0), False),
        (nn.Dropout2d(0.1), True),
        (nn.AlphaDropout(0.1), True),
        (StochasticDepth(0.1, "row"), True),
        (StochasticDepth(0.0, "row"), False),
        (nn.MultiheadAttention(2, 1, dropout=0.1), True),
        (nn.MultiheadAttention(2, 1), False),
        (nn.LSTM(2, 2, num_layers=2, dropout=0.1), True),
        (nn.RReLU(), True),
        (nn.BatchNorm2d(2), False),
        (nn.TransformerEncoderLayer(2, 1, dropout=0.1), True),
        (Custom(), True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_known_layers_and_all_of_users_may_draw_random_numbers(module: nn.Module, expected: bool) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(module))
    assert [may_draw(model, block) for block in sequential(model)] == [False, expected]


@pytest.mark.parametrize("name", ["cnn", "mlp", "wide_resnet_10_1", "resnet18", "vit_b_32"])
def test_models_without_random_numbers_have_no_drawing_blocks(name: str) -> None:
    assert build_model(name, classes=2, channels=3, data_size=8, image_size=None).drawing_blocks() == []


def test_drawing_blocks_have_their_number_in_the_model() -> None:
    built = build_model("vgg11", classes=2, channels=3, data_size=32, image_size=None)
    assert [(number, type(module).__name__) for number, module in built.drawing_blocks()] == [
        (24, "Dropout"),
        (27, "Dropout"),
    ]
    assert [re.sub(r".*\.", "", block.name) for block in built.blocks()][24:28] == ["2", "3", "4", "5"]
