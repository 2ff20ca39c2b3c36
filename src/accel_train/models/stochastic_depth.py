"""Sets stochastic depth: in training, a residual block is skipped at random (Huang et al. 2016)."""

from collections.abc import Callable
from functools import partial

from torch import nn

from accel_train.errors import UserError


def set_stochastic_depth(model: nn.Module, probability: float, name: str) -> None:
    """Let an image skip the last residual block with this probability; it falls linearly to 0 at the first (§4).

    Raises:
        UserError: the model has no stochastic depth.
    """
    blocks = [setters for block in model.modules() if (setters := _setters(block))]
    if not blocks:
        raise UserError(
            f"--stochastic-depth {probability:g}: {name} has no stochastic depth",
            "leave it out, or choose an EfficientNet, ConvNeXt, Swin or MaxViT of torchvision, or such a model of timm",
        )
    for number, setters in enumerate(blocks):
        for setter in setters:
            setter(probability * number / max(1, len(blocks) - 1))


def _setters(block: nn.Module) -> list[Callable[[float], None]]:
    """Return functions that set the probability of a block, not of its parts; none if it does not skip anything."""
    of_torchvision = [part for part in block.children() if type(part).__name__ == "StochasticDepth"]
    setters: list[Callable[[float], None]] = [partial(setattr, part, "p") for part in of_torchvision]
    if type(block).__module__.startswith("timm."):
        parts = {**vars(block), **block._modules}
        names = [part for part in parts if part.startswith("drop_path")]
        setters += [partial(_set_drop_path, block, part) for part in names if _skips(parts[part])]
    return setters


def _skips(part: object) -> bool:
    """Return whether an attribute of timm's blocks is stochastic depth, of a probability of 0 too."""
    return part is None or isinstance(part, nn.Identity) or type(part).__name__ == "DropPath"


def _set_drop_path(block: nn.Module, name: str, probability: float) -> None:
    from timm.layers import DropPath  # a block of timm: it is imported

    setattr(block, name, DropPath(probability))
