"""Finds the blocks of a model, which are sharded, or computed again, one by one."""

from collections import Counter
from collections.abc import Iterator

from torch import nn

CHECKPOINTED = "checkpoints_activations"
"""Attribute of the classes of blocks whose forward pass activation checkpointing has replaced."""
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the blocks of a model: the outermost modules whose classes repeat.

    These are the residual blocks of a ResNet and the layers of a transformer. Single layers are too small, and
    containers (stages) too large. A class that also occurs inside another block is not one.
    """
    parts = [(name, part) for name, part in model.named_modules() if name and _may_be_block(part)]
    count = Counter(type(part) for _, part in parts)
    repeated = {name: part for name, part in parts if count[type(part)] > 1}
    kinds = {name: type(part) for name, part in repeated.items()}
    inner = {kind for name, kind in kinds.items() if any(kinds.get(p, kind) is not kind for p in _parents(name))}
    found = {name: part for name, part in repeated.items() if type(part) not in inner}
    return [part for name, part in found.items() if not any(parent in found for parent in _parents(name))]


def _may_be_block(part: nn.Module) -> bool:
    has_children = next(part.children(), None) is not None
    has_parameters = next(part.parameters(), None) is not None
    return has_children and has_parameters and not isinstance(part, _CONTAINERS)


def _parents(name: str) -> Iterator[str]:
    while "." in name:
        name = name.rpartition(".")[0]
        yield name
