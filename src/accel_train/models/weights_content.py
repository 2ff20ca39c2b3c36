"""Reads the tensors in a file of weights; nothing in it is run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from accel_train.errors import UserError, shown
from accel_train.loggers.text import quoted
from accel_train.models import weights_file
from accel_train.system.regular_files import open_regular

_NESTED = ("state_dict", "model")
"""Keys under which training scripts save the weights, next to other values."""


def read_tensors(file: Path, *, needs_checksum: bool = False) -> Mapping[str, Any]:
    """Return the tensors of a file by name. One that `accel_train` wrote is verified; `needs_checksum` refuses others.

    Raises:
        UserError: the file is missing, damaged, or contains more than tensors.
    """
    if file.suffix not in _READERS:
        raise UserError(
            f"--weights {quoted(file)}: weights are read from {', '.join(_READERS)}",
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
    tensors = next(nested, content)
    if strange := [name for name in tensors if not isinstance(name, str)]:
        raise UserError(
            f"the weights in {file} have the name {shown(strange[0])}, which is no text", "save a model's state_dict"
        )
    return tensors


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
    ".bin": _read_torch,
}
