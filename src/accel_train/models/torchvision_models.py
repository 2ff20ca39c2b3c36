"""torchvision's classifiers, adapted to small images."""

import sys
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.models.base import Architecture, Family
from accel_train.models.splitting import Block, FindBlocks, in_sequence, sequential
from accel_train.models.torchvision_weights import published, vit_patch

_RESNETS = ("resnet", "resnext", "wide_resnet")
_SMALL_STEM_BELOW = 64
"""Image size, pixels, below which the stem of a ResNet, which turns 4 × 4 pixels into one, leaves too few."""
_FIXED_SIZES = {"maxvit": 224}
"""By start of torchvision's name, as below: windows fix these sizes."""
_VIT_SIZE = 224
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
"""Found by trying all classifiers of torchvision 0.29.1, in training and in evaluation (2026-11-27)."""


@cache
def names() -> tuple[str, ...]:
    """Return the names of all classifiers."""
    models = _torchvision()
    return tuple(models.list_models(module=models))


def find(name: str) -> Architecture | None:
    """Return the architecture of a classifier, None if torchvision has none of this name."""
    if name not in names():
        return None
    blocks = next((find for start, find in _BLOCKS.items() if name.startswith(start)), sequential)
    found = Architecture(
        partial(_plain, name), channels=3, sizes=_sizes(name), blocks=blocks, published=partial(published, name)
    )
    if name.startswith(_RESNETS):
        return replace(found, make=partial(_resnet, name), adapt=_use_small_stem, blocks=_resnet_blocks)
    return replace(found, usual_size=_VIT_SIZE) if name.startswith("vit") else found


def _resnet_blocks(model: Any) -> list[Block]:
    names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool")
    return [*in_sequence(model, *names), Block("fc", lambda x: model.fc(x.flatten(1)), ("fc",))]


def _vgg_blocks(model: Any) -> list[Block]:
    first, *others = in_sequence(model, "classifier")
    flattened = replace(first, forward=lambda x: first.forward(x.flatten(1)))
    return [*in_sequence(model, "features", "avgpool"), flattened, *others]


def _vit_blocks(model: Any) -> list[Block]:
    def embed(images_BCHW: Tensor) -> Tensor:
        patches = model._process_input(images_BCHW)
        classes = model.class_token.expand(len(patches), -1, -1)
        embedded: Tensor = model.encoder.dropout(torch.cat([classes, patches], dim=1) + model.encoder.pos_embedding)
        return embedded

    first, *others = in_sequence(model, "heads")
    return [
        Block("conv_proj", embed, ("conv_proj", "class_token", "encoder.pos_embedding", "encoder.dropout")),
        *in_sequence(model, "encoder.layers", "encoder.ln"),
        replace(first, forward=lambda x: first.forward(x[:, 0])),
        *others,
    ]


_BLOCKS: dict[str, FindBlocks] = {
    "vgg": _vgg_blocks,
    "convnext": lambda model: in_sequence(model, "features", "avgpool", "classifier"),
    "vit": _vit_blocks,
    "swin": lambda model: in_sequence(model, "features", "norm", "permute", "avgpool", "flatten", "head"),
}
"""By start of torchvision's name: blocks as in the forward pass of that class (torchvision 0.29)."""
FAMILY = Family("a torchvision classifier such as resnet18", names, find)


def _torchvision() -> Any:
    import torchvision.models  # takes a third of a second: only if needed

    return torchvision.models


def _sizes(name: str) -> range:
    if name.startswith("vit"):
        return range(vit_patch(name), sys.maxsize, vit_patch(name))
    for start, size in _FIXED_SIZES.items():
        if name.startswith(start):
            return range(size, size + 1)
    smallest = (size for start, size in _SMALLEST_SIZES.items() if name.startswith(start))
    return range(next(smallest, 1), sys.maxsize)


def _plain(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    # These two warn unless told whether to initialize their weights as in their papers.
    arguments: dict[str, Any] = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if name.startswith("vit"):
        arguments["image_size"] = image_size
    module: nn.Module = _torchvision().get_model(name, weights=None, num_classes=classes, **arguments)
    return module


def _resnet(name: str, classes: int, channels: int, image_size: int) -> nn.Module:
    """Initialize a ResNet as in Goyal et al. 2017, §5.1: blocks are identities, the classifier has small weights."""
    module: nn.Module = _torchvision().get_model(name, weights=None, num_classes=classes, zero_init_residual=True)
    nn.init.normal_(module.get_parameter("fc.weight"), std=0.01)
    return module


def _use_small_stem(resnet: nn.Module, image_size: int) -> tuple[str, ...]:
    """Keep the full resolution of small images, as the ResNets for CIFAR do (He et al. 2016, §4.2)."""
    if image_size >= _SMALL_STEM_BELOW:
        return ()
    resnet.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)
    nn.init.kaiming_normal_(resnet.conv1.weight, mode="fan_out", nonlinearity="relu")
    resnet.maxpool = nn.Identity()
    return (f"3×3 stem without pooling, because images are {image_size} pixels",)
