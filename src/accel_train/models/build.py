"""Builds a model by name and adapts it to the images of a data set."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn

from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.errors import UserError, shown
from accel_train.loggers.text import quantity
from accel_train.models import networks, timm_models, torchvision_models, user
from accel_train.models.base import Architecture, Weights
from accel_train.models.splitting import NAMED_BLOCKS, Block, FindBlocks, draws, may_draw, problem

FAMILIES = (networks.FAMILY, timm_models.FAMILY, user.FAMILY, torchvision_models.FAMILY)
"""Searched in this order; torchvision is last because importing it takes a third of a second."""


@dataclass(frozen=True)
class BuiltModel:
    """A model on the CPU in fp32, initialized from torch's global generator, and the images it takes."""

    module: nn.Module
    channels: int
    """Input channels; grey images are repeated to this number."""
    image_size: int
    """Height and width of the input, pixels."""
    sizes: range
    """Those that the architecture accepts."""
    adapted_to: int
    """Image size to which the architecture is adapted, pixels: that of given weights, else that of the input."""
    notes: tuple[str, ...]
    """How images and model were adapted to each other, one sentence each."""
    parameters: int
    name: str
    """By which it can be built again."""
    find_blocks: FindBlocks

    def blocks(self) -> list[Block]:
        """Return the blocks of the module.

        Raises:
            UserError: it cannot be cut between any two of them.
        """
        blocks = self.find_blocks(self.module)
        if reason := problem(self.module, blocks):
            raise UserError(
                f"{self.name} cannot be cut into stages: {reason}",
                "use cnn, mlp, airbench, airbench94, wide_resnet, a ResNet, VGG, ConvNeXt, ViT or Swin of torchvision, "
                f"an nn.Sequential, or name the modules in an attribute {NAMED_BLOCKS}",
            )
        return blocks

    def drawing_blocks(self) -> list[tuple[int, nn.Module]]:
        """Return the number and first module of each block that may draw random numbers, if the module has blocks."""
        if not any(map(draws, self.module.modules())):
            return []
        blocks = self.find_blocks(self.module)
        if problem(self.module, blocks):
            return []
        drawing = [(number, block) for number, block in enumerate(blocks) if may_draw(self.module, block)]
        return [(number, self.module.get_submodule(block.name)) for number, block in drawing]


def build_model(
    name: str,
    *,
    classes: int,
    channels: int,
    data_size: int,
    image_size: int | None,
    adapted_to: int | None = None,
    size_reason: str = "as asked",
) -> BuiltModel:
    """Build a model for images of `channels` channels and of `data_size` pixels in height and width.

    `image_size` is the size that the user or given weights ask for, if any, which `size_reason` tells; `adapted_to` is
    the one that the architecture is adapted to, if it is another. Names are those of :func:`model_names`,
    wide_resnet_DEPTH_WIDTH, timm:NAME and my.module:function.

    Raises:
        UserError: the name is unknown, or the model takes no such images or contains SyncBatchNorm.
    """
    architecture = _find(name)
    taken_channels = _match_channels(name, architecture.channels, channels)
    size = _match_size(name, architecture, data_size, image_size)
    module = architecture.make(classes, taken_channels, size)
    _reject_sync_batch_norm(name, module)
    notes = [f"grey images are repeated to {taken_channels} channels"] * (taken_channels != channels)
    notes += _resizing(data_size, size, size_reason if image_size else _limit(architecture))
    notes += architecture.adapt(module, adapted_to or size)
    return BuiltModel(
        module=module,
        channels=taken_channels,
        image_size=size,
        sizes=architecture.sizes,
        adapted_to=adapted_to or size,
        notes=tuple(notes),
        parameters=sum(p.numel() for p in module.parameters()),
        name=architecture.name or name,
        find_blocks=architecture.blocks,
    )


def published_weights(name: str) -> Mapping[str, Callable[[], Weights]]:
    """Return the weights that a model's library publishes for it, by name: functions that download them if needed.

    Raises:
        UserError: the name of the model is unknown.
    """
    return _find(name).published()


def architecture_name(name: str) -> str | None:
    """Return the name of a model in its library; None if it is the one given.

    Raises:
        UserError: the name is unknown.
    """
    return _find(name).name


def model_names() -> list[str]:
    """Return the names of our networks and of torchvision's classifiers."""
    return [name for family in FAMILIES for name in family.names()]


def _find(name: str) -> Architecture:
    for family in FAMILIES:
        if architecture := family.find(name):
            return architecture
    *examples, last = (family.example for family in FAMILIES)
    raise UserError(
        f"unknown model {shown(name)}",
        did_you_mean(suggestions(name, model_names()), f"use {', '.join(examples)}, or {last}"),
    )


def _match_channels(name: str, wanted: int | None, channels: int) -> int:
    if wanted is None or wanted == channels:
        return channels
    if channels != 1:
        raise UserError(
            f"{name} takes images of {quantity(wanted, 'channel')}, not {channels}",
            "use cnn, mlp, airbench, wide_resnet or my.module:function, which take any number of channels",
        )
    return wanted


def _match_size(name: str, architecture: Architecture, data_size: int, image_size: int | None) -> int:
    sizes = architecture.sizes
    if image_size is None:
        return architecture.usual_size or min(max(data_size, sizes[0]), sizes[-1])
    if image_size not in sizes:
        rule = f"it takes multiples of {sizes.step}" if sizes.step > 1 else f"{sizes[0]} is {_limit(architecture)}"
        raise UserError(
            f"{name} does not take images of {image_size} pixels: {rule}",
            f"give --image-size {architecture.usual_size or sizes[0]}, or leave it out",
        )
    return image_size


def _resizing(data_size: int, size: int, reason: str) -> list[str]:
    """Return a note if images are resized."""
    change = "enlarged" if size > data_size else "shrunk"
    return [f"images are {change} from {data_size} to {size} pixels, {reason}"] * (size != data_size)


def _limit(architecture: Architecture) -> str:
    if architecture.usual_size:
        return "the model's usual size"
    return "the model's fixed size" if len(architecture.sizes) == 1 else "the model's smallest size"


def _reject_sync_batch_norm(name: str, module: nn.Module) -> None:
    for path, part in module.named_modules():
        if isinstance(part, nn.SyncBatchNorm):
            raise UserError(
                f"{name} contains SyncBatchNorm ({path or 'the model itself'})",
                "use BatchNorm: it sees one micro-batch, and its buffers are averaged over all processes",
            )
