"""torchvision's classifiers keep their state dict, start as their papers say, and take small images."""

import pytest
import torch
import torchvision.models
from accelerate import init_empty_weights
from helpers.models import build, build_without_memory, logits_of_zeros

from accel_train.errors import UserError


@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "vgg11_bn", "vit_b_16"]
)
def test_state_dict_has_the_names_and_shapes_of_torchvision(name: str) -> None:
    with init_empty_weights():
        plain = torchvision.models.get_model(name, weights=None, num_classes=10)
    built = build_without_memory(name, channels=1, data_size=224)
    ours, theirs = built.module.state_dict(), plain.state_dict()
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}
    assert built.notes == ("grey images are repeated to 3 channels",)


@pytest.mark.parametrize(("name", "last_norm"), [("resnet18", "bn2"), ("resnet50", "bn3")])
def test_resnet_blocks_start_as_identities_with_small_classifier_weights(name: str, last_norm: str) -> None:
    """Goyal et al. 2017, §5.1."""
    torch.manual_seed(0)
    module = build(name, classes=1000).module
    gammas = {key: value for key, value in module.named_parameters() if key.endswith(f"{last_norm}.weight")}
    assert len(gammas) == {"resnet18": 8, "resnet50": 16}[name]
    assert all(torch.count_nonzero(gamma) == 0 for gamma in gammas.values())
    assert torch.all(module.get_parameter("layer1.0.bn1.weight") == 1)
    fc = module.get_parameter("fc.weight")
    assert fc.std().item() == pytest.approx(0.01, rel=0.01)
    assert fc.mean().item() == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize(("size", "small"), [(28, True), (63, True), (64, False), (224, False)])
def test_resnet_keeps_full_resolution_of_small_images(size: int, small: bool) -> None:
    built = build_without_memory("resnet18", channels=3, data_size=size)
    conv1 = built.module.get_parameter("conv1.weight")
    assert conv1.shape == ((64, 3, 3, 3) if small else (64, 3, 7, 7))
    pixels: list[int] = []
    layer1 = built.module.get_submodule("layer1")
    layer1.register_forward_hook(lambda _part, _inputs, output: pixels.append(output.shape[-1]))
    logits_of_zeros(built, "meta")
    assert pixels == [size if small else size // 4]
    note = f"3×3 stem without pooling, because images are {size} pixels"
    assert built.notes == ((note,) if small else ())


def test_small_stem_is_initialized_like_the_other_convolutions() -> None:
    torch.manual_seed(0)
    conv1 = build("resnet18").module.get_parameter("conv1.weight")
    assert conv1.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)


def test_channels_that_cannot_be_matched_are_rejected() -> None:
    with pytest.raises(UserError, match="resnet18 takes images of 3 channels, not 4"):
        build("resnet18", channels=4)
