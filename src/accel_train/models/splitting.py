"""Finds the blocks of a model: parts that run one after another, so that it can be cut between any two of them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from accel_train.errors import UserError, shown

NAMED_BLOCKS = "pipeline_blocks"
"""Attribute of a user's model: the names of the modules that, called one after another, are its forward pass."""
_KNOWN = ("torch.nn.", "torchvision.", "accel_train.")
"""Packages whose modules are known to draw random numbers or not; a user's module may call any function."""


@dataclass(frozen=True)
class Block:
    """A part of a model, which makes one tensor out of one."""

    name: str
    """Of the module that is called first."""
    forward: Callable[[Tensor], Tensor]
    parts: tuple[str, ...]
    """Names of the modules and parameters that it consists of."""


FindBlocks = Callable[[nn.Module], list[Block]]
"""Returns the blocks of a model in order; none if its forward pass is not known as a sequence of blocks."""


def sequential(model: nn.Module) -> list[Block]:
    """Return the blocks of an nn.Sequential, or of a model that names them; none of any other.

    Raises:
        UserError: the names are not a list, or one is not that of a module.
    """
    names = getattr(model, NAMED_BLOCKS, None)
    if names is not None:
        if not isinstance(names, tuple | list):
            raise UserError(
                f"{NAMED_BLOCKS} of {type(model).__name__} is {shown(names)}, which is not a tuple of names",
                f'set it as in {NAMED_BLOCKS} = ("body", "head")',
            )
        modules = dict(model.named_modules())
        for name in names:
            if name not in modules:
                raise UserError(
                    f"{NAMED_BLOCKS} of {type(model).__name__} names {shown(name)}, which is none of its modules",
                    "name modules as state_dict does, in the order in which they run",
                )
        return in_sequence(model, *names)
    return list(_flattened("", model)) if _is_sequential(model) else []


def in_sequence(model: nn.Module, *names: str) -> list[Block]:
    """Return modules that run one after another as blocks; each part of an nn.Sequential is one."""
    return [block for name in names for block in _flattened(name, model.get_submodule(name))]


def problem(model: nn.Module, blocks: Sequence[Block]) -> str | None:
    """Return why a model cannot be cut into these blocks, or None."""
    if not blocks:
        return "its forward pass is not known as a sequence of blocks"
    tensors = [(n, tensor) for n, block in enumerate(blocks) for tensor in _tensors(model, block)]
    held = {id(tensor) for _, tensor in tensors}
    all_tensors = [*model.named_parameters(), *model.named_buffers()]
    if missing := [name for name, tensor in all_tensors if id(tensor) not in held]:
        return f"{missing[0]} is in none of its blocks"
    drawing = [(n, part) for n, block in enumerate(blocks) for part in _modules(model, block) if draws(part)]
    users = {(n, id(thing)) for n, thing in (*tensors, *drawing)}
    count = Counter(thing for _, thing in users)
    shared = sorted({n for n, thing in users if count[thing] > 1})
    return f"its blocks {' and '.join(blocks[n].name for n in shared[:2])} share a part" if shared else None


def may_draw(model: nn.Module, block: Block) -> bool:
    """Return whether the forward pass of a block may draw random numbers."""
    return any(map(draws, _modules(model, block)))


def _flattened(name: str, module: nn.Module) -> Iterator[Block]:
    if not _is_sequential(module):
        yield Block(name, module, (name,))
        return
    for own, child in module._modules.items():
        assert child is not None
        yield from _flattened(f"{name}.{own}" if name else own, child)


def _is_sequential(module: nn.Module) -> bool:
    return isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward


def _place(model: nn.Module, part: str) -> tuple[nn.Module, str]:
    """Return the module that holds a part, and the part's own name there."""
    parent, _, own = part.rpartition(".")
    return model.get_submodule(parent), own


def _modules(model: nn.Module, block: Block) -> Iterator[nn.Module]:
    for owner, own in (_place(model, part) for part in block.parts):
        if (module := owner._modules.get(own)) is not None:
            yield from module.modules()


def _tensors(model: nn.Module, block: Block) -> Iterator[Tensor]:
    for owner, own in (_place(model, part) for part in block.parts):
        if (parameter := owner._parameters.get(own)) is not None:
            yield parameter
    for module in _modules(model, block):
        yield from module.parameters(recurse=False)
        yield from module.buffers(recurse=False)


def draws(module: nn.Module) -> bool:
    """Return whether a module by itself, excluding its children, may draw random numbers in training."""
    if isinstance(module, _DropoutNd) or type(module).__name__ == "StochasticDepth":
        return bool(module.p)
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        return bool(module.dropout)
    if isinstance(module, nn.RReLU | nn.FractionalMaxPool2d | nn.FractionalMaxPool3d):
        return True
    if getattr(module, "attention_dropout", 0):  # of torchvision's Swin, which calls a function
        return True
    return not type(module).__module__.startswith(_KNOWN)
