"""The layers of a model in the order of their depth, which are frozen or get learning rates of their own."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from torch import Tensor, nn

from accel_train.distributed.strategies.blocks import blocks

Layers = Sequence[Sequence[str]]
"""Names of the parameters and buffers of each layer before the head."""


def layers_before_head(model: nn.Module, head: Collection[str]) -> Layers:
    """Return the layers of a model except its head, which consists of the parameters and buffers named `head`.

    A layer begins with a block, such as those of a ResNet or a transformer, and ends where the next one begins. What is
    before the first block is a layer too. In a model without blocks, a layer begins with each weight of more than one
    dimension.
    """
    found = {id(block) for block in blocks(model)}
    paths = [path for path, module in model.named_modules() if id(module) in found]
    starts = paths or [path for path, module in model.named_modules() if _has_weight(path, module, head)]
    layers: list[list[str]] = [[]]
    current = None
    for path, module in model.named_modules():
        start = next((start for start in starts if f"{path}.".startswith(f"{start}.")), None)
        if start not in (None, current):
            layers.append([])
            current = start
        layers[-1] += [name for name, _ in _own_tensors(path, module) if name not in head]
    return [layer for layer in layers if layer]


def learning_rate_factors(
    layers: Layers, head: Collection[str], *, layer_decay: float, head_multiplier: float
) -> Mapping[str, float]:
    """Return the factor of the learning rate of each parameter, by name.

    It decays from the head, which has the full rate times `head_multiplier`, towards the input (Howard and Ruder 2018,
    §3.2).
    """
    factors = {name: layer_decay**above for above, layer in enumerate(reversed(layers), start=1) for name in layer}
    return factors | dict.fromkeys(head, head_multiplier)


def _has_weight(path: str, module: nn.Module, head: Collection[str]) -> bool:
    return any(tensor.ndim > 1 and name not in head for name, tensor in _own_tensors(path, module))


def _own_tensors(path: str, module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield the names in the model, with the tensors, of the parameters and buffers of a module, not of its parts."""
    named = (*module.named_parameters(recurse=False), *module.named_buffers(recurse=False))
    return ((f"{path}.{name}" if path else name, tensor) for name, tensor in named)
