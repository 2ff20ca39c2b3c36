"""Stochastic depth rises linearly over the residual blocks of torchvision's and timm's models."""

import pytest
import timm
import torch
import torchvision
from torch import nn

from accel_train.errors import UserError
from accel_train.models.stochastic_depth import set_stochastic_depth


def probabilities(model: nn.Module) -> list[float]:
    kinds = {"StochasticDepth": "p", "DropPath": "drop_prob"}
    return [getattr(part, kinds[type(part).__name__]) for part in model.modules() if type(part).__name__ in kinds]


def of_torchvision(name: str) -> nn.Module:
    model: nn.Module = torchvision.models.get_model(name, weights=None)
    return model


@pytest.mark.parametrize("name", ["efficientnet_b0", "convnext_tiny", "swin_t"])
def test_blocks_of_torchvision(name: str) -> None:
    with torch.device("meta"):
        model = of_torchvision(name)
    set_stochastic_depth(model, 0.3, name)
    found = probabilities(model)
    assert found == pytest.approx([0.3 * n / (len(found) - 1) for n in range(len(found))])
    set_stochastic_depth(model, 0, name)
    assert set(probabilities(model)) == {0}


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "resnet18", "convnext_atto"])
def test_blocks_of_timm_are_as_if_built_so(name: str) -> None:
    set_stochastic_depth(model := timm.create_model(name), 0.3, name)
    assert [p for p in probabilities(model) if p] == pytest.approx(
        probabilities(timm.create_model(name, drop_path_rate=0.3))
    )


def test_images_skip_blocks_in_training_only() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet10t", zero_init_last=False)
    set_stochastic_depth(model, 0.9, "resnet10t")
    images_BCHW = torch.randn(1, 3, 32, 32).repeat(8, 1, 1, 1)
    assert len(model.eval()(images_BCHW).unique(dim=0)) == 1
    for norm in (part for part in model.train().modules() if isinstance(part, nn.BatchNorm2d)):
        norm.eval()
    assert len(model(images_BCHW).unique(dim=0)) > 1


@pytest.mark.parametrize("model", [nn.Linear(2, 2), of_torchvision("resnet18"), timm.create_model("densenet121")])
def test_model_without_stochastic_depth_is_refused(model: nn.Module) -> None:
    with pytest.raises(UserError) as caught:
        set_stochastic_depth(model, 0.1, "net")
    assert caught.value.message == "--stochastic-depth 0.1: net has no stochastic depth"
    assert caught.value.hint.startswith("leave it out, or choose an EfficientNet, ConvNeXt, Swin or MaxViT")
