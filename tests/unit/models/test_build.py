"""Every model is adapted to its images, or rejected."""

import pytest
import torch
import torchvision.models
from helpers.models import build, build_without_memory, logits_of_zeros
from torch import Tensor, nn

from accel_train.errors import UserError, shown
from accel_train.models import build as build_module
from accel_train.models.base import Architecture, Family
from accel_train.models.build import model_names
from accel_train.models.networks import mlp

TORCHVISION = torchvision.models.list_models(module=torchvision.models)
SMALLEST = {
    "alexnet": 63,
    "convnext_tiny": 32,
    "densenet121": 29,
    "googlenet": 15,
    "inception_v3": 299,
    "squeezenet1_0": 21,
    "squeezenet1_1": 17,
    "swin_t": 4,
    "swin_v2_t": 4,
    "vgg11": 32,
    "vgg11_bn": 32,
    "cnn": 4,
    "airbench": 8,
    "airbench94": 9,
}


def test_model_names_are_ours_and_torchvisions() -> None:
    assert model_names() == ["cnn", "mlp", "airbench", "airbench94", "wide_resnet", *TORCHVISION]
    assert {"resnet18", "vit_b_16", "wide_resnet50_2", "googlenet"} <= set(model_names())


@pytest.mark.parametrize("name", model_names())
def test_every_model_classifies_small_grey_images(name: str) -> None:
    built = build_without_memory(name, classes=7)
    built.module.eval()
    assert logits_of_zeros(built, "meta").shape == (2, 7)


@pytest.mark.parametrize("name", ["cnn", "mlp", "airbench_4_8_8", "airbench94_4_8_8", "wide_resnet_10_1"])
def test_our_networks_take_any_channels(name: str) -> None:
    built = build(name, channels=5)
    assert (built.channels, built.image_size, built.notes) == (5, 28, ())
    assert logits_of_zeros(built).shape == (2, 10)


@pytest.mark.parametrize(
    ("name", "data_size", "image_size", "notes"),
    [
        ("vit_b_16", 28, 224, "images are enlarged from 28 to 224 pixels, the model's usual size"),
        ("maxvit_t", 256, 224, "images are shrunk from 256 to 224 pixels, the model's fixed size"),
        ("inception_v3", 224, 299, "images are enlarged from 224 to 299 pixels, the model's smallest size"),
        ("vgg11", 28, 32, "images are enlarged from 28 to 32 pixels, the model's smallest size"),
    ],
)
def test_images_are_resized_if_the_model_needs_it(name: str, data_size: int, image_size: int, notes: str) -> None:
    built = build_without_memory(name, channels=3, data_size=data_size)
    assert (built.image_size, built.notes) == (image_size, (notes,))


def test_given_image_size_is_used() -> None:
    built = build("cnn", image_size=12)
    assert built.image_size == 12
    assert built.notes == ("images are shrunk from 28 to 12 pixels, as asked",)
    assert logits_of_zeros(built).shape == (2, 10)
    assert build("mlp", image_size=28).notes == ()


@pytest.mark.parametrize(("name", "smallest"), SMALLEST.items())
def test_smallest_size_is_accepted_and_one_pixel_less_rejected(name: str, smallest: int) -> None:
    built = build_without_memory(name, data_size=1)
    assert built.image_size == smallest
    assert logits_of_zeros(built, "meta").shape == (2, 10)
    with pytest.raises(UserError, match=f"of {smallest - 1} pixels: {smallest} is the model's smallest size") as caught:
        build(name, image_size=smallest - 1)
    assert f"--image-size {smallest}" in caught.value.hint


@pytest.mark.parametrize("image_size", [28, 225, 448])
def test_model_of_fixed_size_rejects_other_sizes(image_size: int) -> None:
    with pytest.raises(UserError) as caught:
        build("maxvit_t", image_size=image_size)
    assert str(caught.value) == (f"maxvit_t does not take images of {image_size} pixels: 224 is the model's fixed size")
    assert caught.value.hint == "give --image-size 224, or leave it out"


def test_vit_takes_multiples_of_its_patches() -> None:
    assert logits_of_zeros(build_without_memory("vit_b_32", image_size=96), "meta").shape == (2, 10)
    with pytest.raises(UserError) as caught:
        build("vit_b_16", image_size=40)
    assert caught.value.message == "vit_b_16 does not take images of 40 pixels: it takes multiples of 16"
    assert caught.value.hint == "give --image-size 224, or leave it out"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet99", "resnet50"),
        ("ResNet18", "did you mean resnet18"),
        ("my.nets.build", "my.module:function"),
        ("wide_resnet_16_0", "wide_resnet"),
        ("wide_resnet_10000000000_1", "wide_resnet"),
        (f"wide_resnet_{'9' * 5000}_1", "use cnn"),
    ],
)
def test_unknown_name_is_rejected_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        build(name)
    assert str(caught.value) == f"unknown model {shown(name)}"
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["cnn", "wide_resnet_10_1", "resnet18"])
def test_weights_are_drawn_from_the_global_generator(name: str) -> None:
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        module = build(name, data_size=8).module
        assert {(p.device.type, p.dtype) for p in module.parameters()} == {("cpu", torch.float32)}
        return nn.utils.parameters_to_vector(module.parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_new_family_takes_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = {"flat": Architecture(mlp, channels=3, sizes=range(8, 9))}
    family = Family("flat", names=lambda: tuple(ours), find=ours.get)
    monkeypatch.setattr(build_module, "FAMILIES", (family, *build_module.FAMILIES))
    built = build("flat")
    assert (built.channels, built.image_size) == (3, 8)
    assert logits_of_zeros(built).shape == (2, 10)
    assert model_names()[0] == "flat"
