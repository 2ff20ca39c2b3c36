"""Models by name, fitted to the images of a data set."""

import difflib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from torch import nn

from accel_train.config.import_string import call_function, is_function_name
from accel_train.errors import UserError
from accel_train.models.networks import cnn, mlp, wide_resnet


@dataclass(frozen=True)
class BuiltModel:
    """A model on the CPU in fp32, initialised from torch's global generator, and the images it takes."""

    module: nn.Module
    channels: int
    """Of the images that it takes; grey ones are to be repeated."""
    image_size: int
    """Height and width of the images that it takes, in pixels."""
    notes: tuple[str, ...]
    """How images and model were made to fit each other, a sentence each."""


@dataclass(frozen=True)
class _Architecture:
    """How to make a model, and which images it takes."""

    make: Callable[[int, int, int], nn.Module]
    """From classes, channels and image size."""
    channels: int | None = None
    """None: as many as the data have."""
    sizes: range = range(1, sys.maxsize)
    """Heights and widths in pixels."""
    small_stem_below: int = 0
    """Image size under which a ResNet's stem, which makes one pixel of 4 × 4, leaves too few."""


def build_model(name: str, *, classes: int, channels: int, data_size: int, image_size: int | None) -> BuiltModel:
    """Build a model for images of `channels` channels and of `data_size` pixels in height and width.

    `image_size` is the size that the user asked for, if any. Names are those of :func:`model_names`,
    wide_resnet_DEPTH_WIDTH and my.module:function.

    Raises:
        UserError: the name is unknown, or the model takes no such images or contains SyncBatchNorm.
    """
    architecture = _find(name)
    taken_channels = _match_channels(name, architecture.channels, channels)
    size = _match_size(name, architecture.sizes, data_size, image_size)
    module = architecture.make(classes, taken_channels, size)
    _refuse_sync_batch_norm(name, module)
    notes = []
    if taken_channels != channels:
        notes.append(f"grey images are repeated to {taken_channels} channels")
    if size != data_size:
        change = "enlarged" if size > data_size else "shrunk"
        reason = "as asked" if image_size else _limit(architecture.sizes)
        notes.append(f"images are {change} from {data_size} to {size} pixels, {reason}")
    if size < architecture.small_stem_below:
        _use_small_stem(module)
        notes.append(f"3×3 stem without pooling, because images are {size} pixels")
    return BuiltModel(module, taken_channels, size, tuple(notes))


def model_names() -> list[str]:
    """Return the names of our networks and of torchvision's classifiers."""
    return [*_OWN, *_torchvision_names()]


def _find(name: str) -> _Architecture:
    if name in _OWN:
        return _OWN[name]
    if is_function_name(name):
        return _Architecture(partial(_from_user, name))
    if wide := re.fullmatch(r"wide_resnet_(\d+)_([1-9]\d*)", name):
        return _wide_resnet(depth=int(wide[1]), width=int(wide[2]))
    if name in _torchvision_names():
        return _torchvision(name)
    close = difflib.get_close_matches(name.lower(), model_names())
    some = "take cnn, mlp, wide_resnet, a torchvision classifier such as resnet18, or my.module:function"
    raise UserError(f"unknown model {name!r}", f"did you mean {' or '.join(close)}?" if close else some)


def _match_channels(name: str, wanted: int | None, channels: int) -> int:
    if wanted is None or wanted == channels:
        return channels
    if channels != 1:
        raise UserError(
            f"{name} takes images of {wanted} channels, not {channels}",
            "take cnn, mlp, wide_resnet or my.module:function, which take any number of channels",
        )
    return wanted


def _match_size(name: str, sizes: range, data_size: int, image_size: int | None) -> int:
    if image_size is None:
        return min(max(data_size, sizes[0]), sizes[-1])
    if image_size not in sizes:
        raise UserError(
            f"{name} does not take images of {image_size} pixels: {sizes[0]} is {_limit(sizes)}",
            f"give --image-size {sizes[0]}, or leave it out",
        )
    return image_size


def _limit(sizes: range) -> str:
    return "the model's fixed size" if len(sizes) == 1 else "the smallest that it takes"


def _refuse_sync_batch_norm(name: str, module: nn.Module) -> None:
    for place, part in module.named_modules():
        if isinstance(part, nn.SyncBatchNorm):
            raise UserError(
                f"{name} contains SyncBatchNorm ({place or 'the model itself'})",
                "use BatchNorm: it sees one micro-batch, and its buffers are averaged over all processes",
            )


def _from_user(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    module = call_function(
        name,
        "--model",
        classes=classes,
        num_classes=classes,
        channels=channels,
        in_channels=channels,
        image_size=image_size,
    )
    if not isinstance(module, nn.Module):
        raise UserError(
            f"--model {name} returned {type(module).__name__}, not a torch.nn.Module",
            "return the model from that function",
        )
    return module


def _wide_resnet(depth: int, width: int) -> _Architecture:
    return _Architecture(lambda classes, channels, image_size: wide_resnet(classes, channels, depth, width))


@cache
def _torchvision_names() -> tuple[str, ...]:
    models = _torchvision_models()
    return tuple(models.list_models(module=models))


def _torchvision_models() -> Any:
    import torchvision.models  # a third of a second, for those who need it

    return torchvision.models


def _torchvision(name: str) -> _Architecture:
    make, stem = (_resnet, 64) if name.startswith(_RESNETS) else (_plain, 0)
    return _Architecture(partial(make, name), channels=3, sizes=_torchvision_sizes(name), small_stem_below=stem)


def _torchvision_sizes(name: str) -> range:
    for start, size in _FIXED_SIZES.items():
        if name.startswith(start):
            return range(size, size + 1)
    smallest = (size for start, size in _SMALLEST_SIZES.items() if name.startswith(start))
    return range(next(smallest, 1), sys.maxsize)


def _plain(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    # These two warn unless told whether to draw their weights as their papers do.
    arguments = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    module: nn.Module = _torchvision_models().get_model(name, weights=None, num_classes=classes, **arguments)
    return module


def _resnet(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    """Build a ResNet that starts as in Goyal et al. 2017, §5.1: each block as an identity, a quiet classifier."""
    module: nn.Module = _torchvision_models().get_model(
        name, weights=None, num_classes=classes, zero_init_residual=True
    )
    nn.init.normal_(module.get_parameter("fc.weight"), std=0.01)
    return module


def _use_small_stem(resnet: nn.Module) -> None:
    """Take small images at full resolution, as the ResNets for CIFAR do (He et al. 2016, §4.2)."""
    resnet.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(resnet.conv1.weight, mode="fan_out", nonlinearity="relu")
    resnet.maxpool = nn.Identity()


_RESNETS = ("resnet", "resnext", "wide_resnet")
_FIXED_SIZES = {"maxvit": 224, "vit": 224}
"""By the start of torchvision's name, like the sizes below: windows and position embeddings fix these."""
_SMALLEST_SIZES = {
    "alexnet": 63,
    "convnext": 32,
    "densenet": 29,
    "googlenet": 15,
    "inception": 299,
    "squeezenet1_0": 21,
    "squeezenet1_1": 17,
    "swin": 4,
    "vgg": 32,
}
"""Tried on all of torchvision 0.29.1's classifiers, in training and in evaluation (2026-11-27)."""
_OWN: dict[str, _Architecture] = {
    "cnn": _Architecture(cnn, sizes=range(4, sys.maxsize)),
    "mlp": _Architecture(mlp),
    "wide_resnet": _wide_resnet(depth=10, width=10),
}
