"""Initializes a model from weights that somebody has trained."""

import math
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.weights_content import read_tensors

_WRAPPERS = re.compile(r"^(module\.|_orig_mod\.)+")
"""Prefixes that DDP and torch.compile add to names."""
_COUNTER = ".num_batches_tracked"


def weights_in(
    file: Path,
    preprocessing: Preprocessing | None = None,
    classes: tuple[str, ...] | None = None,
    *,
    needs_checksum: bool = False,
) -> Weights:
    """Return the weights in a file. One that `accel_train` wrote is verified; `needs_checksum` refuses any other."""
    read = partial(read_tensors, needs_checksum=needs_checksum)
    return Weights(str(file), lambda image_size: read(file), preprocessing, classes)


def load_initial(
    module: nn.Module, weights: Weights, image_size: int, fresh: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Load weights in place, and return what was done, one sentence each.

    The tensors in `fresh`, and a head for another number of classes, keep their new weights, made small.

    Raises:
        UserError: the weights cannot be read safely or do not fit the module.
    """
    live = module.state_dict()
    stored = _plain_names(weights.read(image_size), live)
    missing = [name for name in live if name not in stored and name.rpartition(".")[0] in weights.headless]
    heads = [name for name in live if name in stored and name in {*fresh, *_other_heads(module, live, stored)}]
    counters = [name for name in live if name.endswith(_COUNTER) and name not in stored]
    hint = f"give the {weights.options} and kind of images that the weights were trained with"
    _check(weights.name, live, stored, {*heads, *missing, *counters}, hint)
    taken = [name for name in live if name not in heads and name in stored]
    for name in taken:
        live[name].copy_(stored[name])
    for name in (*heads, *missing):
        _make_small(live[name])
    sentences = [f"weights from {weights.name}: {quantity(len(taken), 'tensor')}"]
    for layer, name in _by_layer(heads).items():
        numbers = f"{len(stored[name]):,} → {quantity(len(live[name]), 'class', 'classes')}"
        sentences.append(f"head {layer} replaced: {'other classes' if name in fresh else numbers}")
    sentences += [f"layer {layer} is new: the weights have no head" for layer in _by_layer(missing)]
    if not heads and not missing and weights.classes is None:
        sentences.append("the head is kept, as if for the same classes: the weights do not name theirs")
    if counters:
        start = "starts" if len(counters) == 1 else "start"
        sentences.append(f"{quantity(len(counters), 'counter')} of BatchNorm, missing in the file, {start} at 0")
    return tuple(sentences)


def _make_small(weights: Tensor) -> None:
    """Scale the weights of a new head down to the range of torch's own initialization of layers, if theirs is larger.

    The gradients of a head that is wrong with confidence change features that are right: timm initializes that of an
    EfficientNet for nine classes twelve times as large, which cost eight points (benchmarks/finetune/README.md).
    """
    if weights.ndim < 2:
        return
    largest = weights.abs().max().item()  # unlike a sum, the same on any number of threads
    limit = 1 / math.sqrt(weights[0].numel())
    if largest > limit:
        weights.mul_(limit / largest)


def _by_layer(names: list[str]) -> dict[str, str]:
    """Return one tensor of each layer."""
    return {name.rpartition(".")[0]: name for name in names}


def _plain_names(stored: Mapping[str, Any], live: Mapping[str, Tensor]) -> dict[str, Any]:
    """Remove the prefixes of wrappers, unless the model's own names have them."""
    return {name if name in live else _WRAPPERS.sub("", name): value for name, value in stored.items()}


def _other_heads(module: nn.Module, live: Mapping[str, Tensor], stored: Mapping[str, Any]) -> list[str]:
    """Return the tensors of the last layers, including auxiliary ones, that are for another number of classes.

    The length of the last parameter is the number of classes; only a last layer can differ in its outputs alone.
    """
    outputs = [len(parameter) for parameter in module.parameters() if parameter.ndim][-1:]
    return [
        name
        for name, tensor in live.items()
        if isinstance(other := stored.get(name), Tensor)
        and tensor.ndim == other.ndim
        and [*tensor.shape[:1]] == outputs != [*other.shape[:1]]
        and tensor.shape[1:] == other.shape[1:]
    ]


def _check(place: str, live: Mapping[str, Tensor], stored: Mapping[str, Any], excused: set[str], hint: str) -> None:
    """Raise UserError with the first tensor that is missing, has another shape, or is not in the model."""
    for name, tensor in live.items():
        if name in excused:
            continue
        if name not in stored:
            raise UserError(f"{place} has no {name} ({_shape(tensor)} in the model)", hint)
        if not isinstance(stored[name], Tensor) or stored[name].shape != tensor.shape:
            raise UserError(f"{name} is {_shape(stored[name])} in {place}, but {_shape(tensor)} in the model", hint)
        _check_numbers(name, stored[name], tensor, place)
    for name in stored:
        if name not in live:
            raise UserError(f"{place} has {name} ({_shape(stored[name])}), which is not in the model", hint)


def _check_numbers(name: str, stored: Tensor, live: Tensor, place: str) -> None:
    """Refuse numbers that a copy would turn into others, such as quantized ones, or that it cannot copy."""
    if stored.is_meta or stored.layout is not torch.strided:
        raise UserError(
            f"{name} is {stored.layout} on {stored.device} in {place}", "save dense tensors that have data, on the CPU"
        )
    if stored.is_complex() or stored.is_floating_point() != live.is_floating_point():
        raise UserError(
            f"{name} is {stored.dtype} in {place}, but {live.dtype} in the model",
            "save the weights as floats, before they are quantized",
        )


def _shape(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return " × ".join(map(str, value.shape)) or "one number"
