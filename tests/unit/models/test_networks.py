"""Our own networks have the layers, sizes and initialization that their sources state."""

import pytest
import torch
from helpers.models import build
from torch import nn

from accel_train.errors import UserError
from accel_train.models.networks import airbench, cnn, mlp, wide_resnet


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def weight_shapes(module: nn.Module) -> list[tuple[int, ...]]:
    return [tuple(parameter.shape) for parameter in module.parameters() if parameter.dim() > 1]


def test_cnn_has_the_parameters_of_the_benchmark() -> None:
    module = cnn(classes=10, channels=1, image_size=28)
    assert weight_shapes(module) == [(32, 1, 3, 3), (64, 32, 3, 3), (128, 3136), (10, 128)]
    assert parameters(module) == 421_642


@pytest.mark.parametrize("image_size", [4, 5, 8, 29])
def test_cnn_takes_any_size_of_at_least_4(image_size: int) -> None:
    module = cnn(classes=7, channels=3, image_size=image_size)
    assert module(torch.zeros(2, 3, image_size, image_size)).shape == (2, 7)


def test_mlp_has_two_hidden_layers_of_256() -> None:
    assert weight_shapes(mlp(classes=10, channels=3, image_size=8)) == [(256, 192), (256, 256), (10, 256)]


def test_wide_resnet_10_10_has_one_block_per_stage() -> None:
    with torch.device("meta"):
        module = wide_resnet(classes=10, channels=1, depth=10, width=10)
    convolutions = [part for part in module.modules() if isinstance(part, nn.Conv2d)]
    large = [(part.out_channels, part.stride[0]) for part in convolutions if part.kernel_size == (3, 3)]
    shortcuts = [(part.out_channels, part.stride[0]) for part in convolutions if part.kernel_size == (1, 1)]
    assert large == [(16, 1), (160, 1), (160, 1), (320, 2), (320, 1), (640, 2), (640, 1)]
    assert shortcuts == [(160, 1), (320, 2), (640, 2)]
    assert parameters(module) == 7_435_066


def test_wide_resnet_28_10_has_the_parameters_of_the_paper() -> None:
    """36.5 million parameters on CIFAR-10 (Zagoruyko and Komodakis 2016, table 4)."""
    with torch.device("meta"):
        module = wide_resnet(classes=10, channels=3, depth=28, width=10)
    assert parameters(module) == 36_479_194


def test_wide_block_activates_first_and_adds_to_its_input() -> None:
    torch.manual_seed(0)
    block = wide_resnet(classes=10, channels=1, depth=16, width=1).get_submodule("stage1.0").eval()
    x_BCHW = torch.randn(2, 16, 6, 6)
    first, second = (block.get_parameter(f"conv{number}.weight") for number in (1, 2))
    scale = (1 + 1e-5) ** -0.5  # fresh BatchNorm in evaluation: mean 0, variance 1, eps 1e-5
    hidden_BCHW = torch.conv2d(torch.relu(x_BCHW * scale), first, padding=1)
    added_BCHW = torch.conv2d(torch.relu(hidden_BCHW * scale), second, padding=1)
    torch.testing.assert_close(block(x_BCHW), x_BCHW + added_BCHW)


def test_wide_resnet_convolutions_are_initialized_as_in_he_et_al() -> None:
    torch.manual_seed(0)
    module = wide_resnet(classes=10, channels=1, depth=10, width=4)
    weight = module.get_parameter("stage3.0.conv2.weight")
    assert weight.std().item() == pytest.approx((2 / (256 * 9)) ** 0.5, rel=0.01)


@pytest.mark.parametrize(
    ("depth", "nearest"), [(15, (10, 16)), (17, (16, 22)), (3, (10,)), (4, (10,)), (9, (10,)), (12, (10, 16))]
)
def test_wide_resnet_rejects_depth_between_blocks(depth: int, nearest: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=f"cannot be {depth} layers deep") as caught:
        wide_resnet(classes=10, channels=1, depth=depth, width=4)
    assert caught.value.hint == f"use {' or '.join(f'wide_resnet_{depth}_4' for depth in nearest)}"


@pytest.mark.parametrize(("name", "depth", "width"), [("wide_resnet", 10, 10), ("wide_resnet_16_4", 16, 4)])
def test_wide_resnet_name_gives_depth_and_width(name: str, depth: int, width: int) -> None:
    torch.manual_seed(3)
    named = build(name).module.state_dict()
    torch.manual_seed(3)
    expected = wide_resnet(10, 1, depth, width).state_dict()
    assert list(named) == list(expected)
    assert all(torch.equal(named[key], expected[key]) for key in expected)


def test_airbench_has_three_groups_and_halves_the_image_in_each() -> None:
    module = airbench(classes=10, channels=1, widths=(8, 16, 32))
    assert weight_shapes(module) == [
        *((8, 1, 3, 3), (8, 8, 3, 3), (16, 8, 3, 3), (16, 16, 3, 3), (32, 16, 3, 3), (32, 32, 3, 3)),
        (10, 32),
    ]
    assert module[:2](torch.zeros(2, 1, 28, 28)).shape == (2, 16, 7, 7)


def test_airbench_starts_with_identities_and_cautious_predictions() -> None:
    torch.manual_seed(0)
    module = airbench(classes=10, channels=3, widths=(8, 8, 8))
    images_BCHW = torch.randn(2, 3, 16, 16)
    group = module.get_submodule("group1.0")
    torch.testing.assert_close(group(images_BCHW)[:, :3], images_BCHW)
    logits_BK = module(images_BCHW)
    head = module.get_submodule("linear")
    torch.testing.assert_close(logits_BK, head(module[:3](images_BCHW).amax((2, 3))) / 9)


@pytest.mark.parametrize("whitening", [False, True])
@pytest.mark.parametrize(("ending", "widths"), [("", (64, 256, 256)), ("_32_64_128", (32, 64, 128))])
def test_airbench_name_gives_widths(ending: str, widths: tuple[int, ...], whitening: bool) -> None:
    shapes = weight_shapes(build(f"airbench{'94' * whitening}{ending}", channels=3, data_size=32).module)
    assert shapes == weight_shapes(airbench(10, 3, widths, whitening=whitening))


def test_airbench94_starts_with_24_filters_of_patches() -> None:
    module = airbench(classes=10, channels=3, widths=(64, 256, 256), whitening=True)
    assert module[:1](torch.zeros(2, 3, 32, 32)).shape == (2, 24, 31, 31)
    assert module.get_submodule("group1.0").weight.shape == (64, 24, 3, 3)
