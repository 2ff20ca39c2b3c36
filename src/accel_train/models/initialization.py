"""Initializes parts of a new model in another way than the model itself does."""

from collections.abc import Collection

from torch import nn

from accel_train.errors import UserError

_LAST_NORMS = {"BasicBlock": "bn2", "Bottleneck": "bn3"}
"""The last BatchNorm of each residual block, by the class of the blocks of ResNets in torchvision and timm."""


def set_residual_scale(model: nn.Module, scale: float, name: str) -> None:
    """Set γ of the last BatchNorm of each residual block: with 0, new blocks are identities (Goyal et al. 2017, §5.1).

    Raises:
        UserError: the model is no ResNet.
    """
    norms = [
        getattr(block, _LAST_NORMS[type(block).__name__])
        for block in model.modules()
        if type(block).__name__ in _LAST_NORMS
    ]
    if not norms:
        option = "--no-zero-init-residual" if scale else "--zero-init-residual"
        raise UserError(
            f"{option}: {name} has no residual blocks that end in BatchNorm",
            "leave it out, or choose a ResNet of torchvision or timm",
        )
    for norm in norms:
        nn.init.constant_(norm.weight, scale)


def draw_head(model: nn.Module, head: Collection[str], std: float) -> None:
    """Draw the weights of the head from a normal distribution of mean 0; `head` are the names of its tensors."""
    for name, parameter in model.named_parameters():
        if name in head and parameter.dim() > 1:
            nn.init.normal_(parameter, std=std)
