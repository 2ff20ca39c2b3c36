"""Every model fits its images, starts as its paper says, and is refused where it cannot."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision.models
from accelerate import init_empty_weights
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.models.build import BuiltModel, build_model, model_names
from accel_train.models.networks import wide_resnet

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
}
NETS = """
from torch import nn

def some(num_classes, image_size):
    return nn.Linear(image_size, num_classes)

def by_name(*, classes, in_channels, depth=3):
    return nn.Linear(in_channels, classes * depth)

def all_of_them(**offered):
    net = nn.Identity()
    net.offered = offered
    return net

def synced(classes):
    return nn.Sequential(nn.Flatten(), nn.SyncBatchNorm(classes))

def nothing(classes):
    return None
"""


def build(
    name: str, *, classes: int = 10, channels: int = 1, data_size: int = 28, image_size: int | None = None
) -> BuiltModel:
    return build_model(name, classes=classes, channels=channels, data_size=data_size, image_size=image_size)


def build_without_memory(name: str, **images: int) -> BuiltModel:
    """Some models compute with buffers while they are built, so that only parameters may be on meta."""
    with init_empty_weights(include_buffers=False):
        built = build(name, **images)
    built.module.to("meta")
    return built


def run(built: BuiltModel, device: str = "cpu") -> Tensor:
    images_BCHW = torch.zeros(2, built.channels, built.image_size, built.image_size, device=device)
    with torch.no_grad():
        output = built.module(images_BCHW)
    logits_BK: Tensor = output if isinstance(output, Tensor) else output.logits
    return logits_BK


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the name of a module in the current directory, which is not on the path yet."""
    (tmp_path / "nets_of_a_user.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    monkeypatch.delitem(sys.modules, "nets_of_a_user", raising=False)
    return "nets_of_a_user"


def test_names_are_ours_and_torchvisions() -> None:
    assert model_names() == ["cnn", "mlp", "wide_resnet", *TORCHVISION]
    assert {"resnet18", "vit_b_16", "wide_resnet50_2", "googlenet"} <= set(model_names())


@pytest.mark.parametrize("name", model_names())
def test_every_model_classifies_small_grey_images(name: str) -> None:
    built = build_without_memory(name, classes=7)
    built.module.eval()
    assert run(built, "meta").shape == (2, 7)


@pytest.mark.parametrize("name", ["cnn", "mlp", "wide_resnet_10_1"])
def test_our_networks_take_any_channels(name: str) -> None:
    built = build(name, channels=5)
    assert (built.channels, built.image_size, built.notes) == (5, 28, ())
    assert run(built).shape == (2, 10)


@pytest.mark.parametrize(("name", "depth", "width"), [("wide_resnet", 10, 10), ("wide_resnet_16_4", 16, 4)])
def test_the_name_of_a_wide_resnet_says_depth_and_width(name: str, depth: int, width: int) -> None:
    torch.manual_seed(3)
    named = build(name).module.state_dict()
    torch.manual_seed(3)
    expected = wide_resnet(10, 1, depth, width).state_dict()
    assert list(named) == list(expected)
    assert all(torch.equal(named[key], expected[key]) for key in expected)


@pytest.mark.parametrize(
    "name", ["resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "vgg11_bn", "vit_b_16"]
)
def test_plain_torchvision_loads_the_weights_strictly(name: str) -> None:
    with init_empty_weights():
        plain = torchvision.models.get_model(name, weights=None, num_classes=10)
    built = build_without_memory(name, channels=1, data_size=224)
    ours, theirs = built.module.state_dict(), plain.state_dict()
    assert {key: value.shape for key, value in ours.items()} == {key: value.shape for key, value in theirs.items()}
    assert built.notes == ("grey images are repeated to 3 channels",)


@pytest.mark.parametrize(("name", "last_norm"), [("resnet18", "bn2"), ("resnet50", "bn3")])
def test_a_resnet_starts_as_identities_and_a_quiet_classifier(name: str, last_norm: str) -> None:
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
def test_a_resnet_takes_small_images_at_full_resolution(size: int, small: bool) -> None:
    built = build_without_memory("resnet18", channels=3, data_size=size)
    conv1 = built.module.get_parameter("conv1.weight")
    assert conv1.shape == ((64, 3, 3, 3) if small else (64, 3, 7, 7))
    pixels: list[int] = []
    layer1 = built.module.get_submodule("layer1")
    layer1.register_forward_hook(lambda _part, _inputs, output: pixels.append(output.shape[-1]))
    run(built, "meta")
    assert pixels == [size if small else size // 4]
    note = f"3×3 stem without pooling, because images are {size} pixels"
    assert built.notes == ((note,) if small else ())


def test_the_small_stem_starts_as_the_other_convolutions() -> None:
    torch.manual_seed(0)
    conv1 = build("resnet18").module.get_parameter("conv1.weight")
    assert conv1.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.05)


@pytest.mark.parametrize(
    ("name", "data_size", "image_size", "notes"),
    [
        ("vit_b_16", 28, 224, "images are enlarged from 28 to 224 pixels, the model's fixed size"),
        ("maxvit_t", 256, 224, "images are shrunk from 256 to 224 pixels, the model's fixed size"),
        ("inception_v3", 224, 299, "images are enlarged from 224 to 299 pixels, the smallest that it takes"),
        ("vgg11", 28, 32, "images are enlarged from 28 to 32 pixels, the smallest that it takes"),
    ],
)
def test_images_are_resized_where_the_model_needs_it(name: str, data_size: int, image_size: int, notes: str) -> None:
    built = build_without_memory(name, channels=3, data_size=data_size)
    assert (built.image_size, built.notes) == (image_size, (notes,))


def test_the_size_asked_for_wins() -> None:
    built = build("cnn", image_size=12)
    assert built.image_size == 12
    assert built.notes == ("images are shrunk from 28 to 12 pixels, as asked",)
    assert run(built).shape == (2, 10)
    assert build("mlp", image_size=28).notes == ()


@pytest.mark.parametrize(("name", "smallest"), SMALLEST.items())
def test_the_smallest_size_trains_and_the_next_smaller_is_refused(name: str, smallest: int) -> None:
    built = build_without_memory(name, data_size=1)
    assert built.image_size == smallest
    assert run(built, "meta").shape == (2, 10)
    with pytest.raises(UserError, match=f"of {smallest - 1} pixels: {smallest} is the smallest") as caught:
        build(name, image_size=smallest - 1)
    assert f"--image-size {smallest}" in caught.value.hint


@pytest.mark.parametrize("image_size", [28, 225, 448])
def test_a_fixed_size_refuses_another_one(image_size: int) -> None:
    with pytest.raises(UserError) as caught:
        build("vit_b_16", image_size=image_size)
    assert str(caught.value) == (f"vit_b_16 does not take images of {image_size} pixels: 224 is the model's fixed size")
    assert caught.value.hint == "give --image-size 224, or leave it out"


def test_torchvision_refuses_channels_that_cannot_be_matched() -> None:
    with pytest.raises(UserError, match="resnet18 takes images of 3 channels, not 4"):
        build("resnet18", channels=4)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("resnet99", "resnet50"),
        ("ResNet18", "did you mean resnet18"),
        ("my.nets.build", "my.module:function"),
        ("wide_resnet_16_0", "wide_resnet"),
    ],
)
def test_an_unknown_name_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UserError) as caught:
        build(name)
    assert str(caught.value) == f"unknown model {name!r}"
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["cnn", "wide_resnet_10_1", "resnet18"])
def test_weights_come_from_the_global_generator(name: str) -> None:
    def weights(seed: int) -> Tensor:
        torch.manual_seed(seed)
        module = build(name, data_size=8).module
        assert {(p.device.type, p.dtype) for p in module.parameters()} == {("cpu", torch.float32)}
        return nn.utils.parameters_to_vector(module.parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.mark.parametrize(
    ("function", "read", "expected"),
    [
        ("some", lambda net: tuple(net.weight.shape), (10, 28)),
        ("by_name", lambda net: tuple(net.weight.shape), (30, 4)),
        (
            "all_of_them",
            lambda net: net.offered,
            {"classes": 10, "num_classes": 10, "channels": 4, "in_channels": 4, "image_size": 28},
        ),
    ],
)
def test_a_users_function_gets_what_it_names(
    nets: str, function: str, read: Callable[[nn.Module], object], expected: object
) -> None:
    built = build(f"{nets}:{function}", channels=4)
    assert read(built.module) == expected
    assert (built.channels, built.image_size, built.notes) == (4, 28, ())


def test_a_users_function_gets_the_size_asked_for(nets: str) -> None:
    built = build(f"{nets}:some", image_size=17)
    assert built.module.get_parameter("weight").shape == (10, 17)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{nets}:nothing", "returned NoneType"),
        ("{nets}:synced", r"contains SyncBatchNorm \(1\)"),
        ("{nets}:absent", "absent"),
        ("no_such_module_here:build", "No module named 'no_such_module_here'"),
    ],
)
def test_a_users_function_is_refused_with_the_reason(nets: str, name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        build(name.format(nets=nets))
