"""Residual blocks start as identities or not, and heads with the standard deviation that is asked for."""

import pytest
import torch
from helpers.models import build
from torch import nn

from accel_train.errors import UserError
from accel_train.models.initialization import draw_head, set_residual_scale


def last_scales(model: nn.Module) -> set[float]:
    """Return γ of the last BatchNorm of all blocks."""
    norms = [getattr(part, "bn3", getattr(part, "bn2", None)) for part in model.modules() if hasattr(part, "bn2")]
    return {value for norm in norms for value in norm.weight.unique().tolist()}


@pytest.mark.parametrize("name", ["resnet18", "resnext50_32x4d", "timm:resnet10t"])
@pytest.mark.parametrize("scale", [0, 1])
def test_blocks_of_resnets_get_the_scale(name: str, scale: int) -> None:
    model = build(name, channels=3, data_size=32).module
    assert last_scales(model) == {0}  # both libraries' own
    set_residual_scale(model, scale, name)
    assert last_scales(model) == {scale}
    others = [norm for key, norm in model.named_modules() if isinstance(norm, nn.BatchNorm2d) and "layer" not in key]
    assert {value for norm in others for value in norm.weight.unique().tolist()} == {1}


@pytest.mark.parametrize(("scale", "option"), [(0, "--zero-init-residual"), (1, "--no-zero-init-residual")])
def test_model_without_such_blocks_is_refused(scale: int, option: str) -> None:
    with pytest.raises(UserError) as caught:
        set_residual_scale(build("cnn").module, scale, "cnn")
    assert caught.value.message == f"{option}: cnn has no residual blocks that end in BatchNorm"
    assert caught.value.hint == "leave it out, or choose a ResNet of torchvision or timm"


def test_weights_of_the_head_alone_are_drawn() -> None:
    torch.manual_seed(0)
    model = build("mlp").module
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    draw_head(model, frozenset({"5.weight", "5.bias"}), 0.5)
    changed = {key for key, tensor in model.state_dict().items() if not torch.equal(tensor, before[key])}
    assert changed == {"5.weight"}
    assert model.get_parameter("5.weight").std().item() == pytest.approx(0.5, rel=0.05)
