"""Initializes the weights of a model from a file."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.loggers.text import quantity, quoted
from accel_train.models import weights_file
from accel_train.system.regular_files import open_regular

_WRAPPERS = re.compile(r"^(module\.|_orig_mod\.)+")
"""Prefixes that DDP and torch.compile add to names."""
_NESTED = ("state_dict", "model")
"""Keys under which training scripts save the weights, next to other values."""
_COUNTER = ".num_batches_tracked"
_HINT = "give the --model, --image-size and kind of images that the weights were trained with"


def load_initial(
    module: nn.Module, file: Path, fresh: frozenset[str] = frozenset(), *, needs_checksum: bool = False
) -> tuple[str, ...]:
    """Load weights in place from a file, and return what was done, one sentence each.

    The tensors in `fresh`, and a head for another number of classes, keep their new weights. A file that `accel_train`
    wrote is verified; `needs_checksum` refuses any other.

    Raises:
        UserError: the file is missing, cannot be read safely or does not fit the module.
    """
    live = module.state_dict()
    stored = _plain_names(_read(file, needs_checksum), live)
    heads = [name for name in live if name in stored and name in {*fresh, *_other_heads(module, live, stored)}]
    counters = [name for name in live if name.endswith(_COUNTER) and name not in stored]
    _check(file, live, stored, excused={*heads, *counters})
    taken = [name for name in live if name not in heads and name in stored]
    for name in taken:
        live[name].copy_(stored[name])
    sentences = [f"weights from {file}: {quantity(len(taken), 'tensor')}"]
    for layer, name in {name.rpartition(".")[0]: name for name in heads}.items():
        numbers = f"{len(stored[name]):,} → {quantity(len(live[name]), 'class', 'classes')}"
        sentences.append(f"head {layer} replaced: {'other classes' if name in fresh else numbers}")
    if counters:
        start = "starts" if len(counters) == 1 else "start"
        sentences.append(f"{quantity(len(counters), 'counter')} of BatchNorm, missing in the file, {start} at 0")
    return tuple(sentences)


def _read(file: Path, needs_checksum: bool) -> Mapping[str, Any]:
    if file.suffix not in _READERS:
        raise UserError(
            f"--init-from {quoted(file)}: weights are read from {', '.join(_READERS)}",
            "give such a file or a run's folder",
        )
    try:
        open_regular(file).close()  # torch would wait for a FIFO
        if file.suffix == ".safetensors":
            weights_file.verify(file, needs_checksum=needs_checksum)
        content = _READERS[file.suffix](file)
    except UserError:
        raise
    except OSError as error:
        raise UserError(
            f"cannot read the weights in {file}: {error.strerror or error}", "give the folder of a finished run"
        ) from None
    except Exception:  # the readers raise all kinds of errors on a damaged file
        raise UserError(
            f"cannot read the weights in {file}: it is damaged, or contains more than tensors",
            "save only a model's state_dict, preferably as .safetensors; other pickles could run any code",
        ) from None
    nested = (content[name] for name in _NESTED if isinstance(content.get(name), Mapping))
    return next(nested, content)


def _read_safetensors(file: Path) -> Mapping[str, Any]:
    return safetensors.torch.load_file(file)


def _read_torch(file: Path) -> Mapping[str, Any]:
    content = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(content, Mapping):
        raise TypeError(type(content))
    return content


_READERS: dict[str, Callable[[Path], Mapping[str, Any]]] = {
    ".safetensors": _read_safetensors,
    ".pt": _read_torch,
    ".pth": _read_torch,
}


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


def _check(file: Path, live: Mapping[str, Tensor], stored: Mapping[str, Any], excused: set[str]) -> None:
    """Raise UserError with the first tensor that is missing, has another shape, or is not in the model."""
    for name, tensor in live.items():
        if name in excused:
            continue
        if name not in stored:
            raise UserError(f"{file} has no {name} ({_shape(tensor)} in the model)", _HINT)
        if not isinstance(stored[name], Tensor) or stored[name].shape != tensor.shape:
            raise UserError(f"{name} is {_shape(stored[name])} in {file}, but {_shape(tensor)} in the model", _HINT)
    for name in stored:
        if name not in live:
            raise UserError(f"{file} has {name} ({_shape(stored[name])}), which is not in the model", _HINT)


def _shape(value: Any) -> str:
    if not isinstance(value, Tensor):
        return f"a {type(value).__name__}"
    return " × ".join(map(str, value.shape)) or "one number"
