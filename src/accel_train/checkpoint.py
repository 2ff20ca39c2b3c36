"""Writes and reads the weights of a model."""

import os
from pathlib import Path

import safetensors.torch
from accelerate import Accelerator
from torch import Tensor, nn

from accel_train.distributed import unwrapped
from accel_train.errors import UserError


def save_weights(accelerator: Accelerator, model: nn.Module, path: Path) -> None:
    """Collective: write a model's weights as one file that plain torch loads, whole or not at all."""
    weights = unwrapped(accelerator, model).state_dict()
    if accelerator.is_main_process:
        # Each its own memory, packed: buffers are views of one tensor, convolutions lie channels last.
        packed = {name: weight.detach().cpu().clone().contiguous() for name, weight in weights.items()}
        partial = path.with_name(f".tmp_{path.name}")
        with partial.open("wb") as file:
            file.write(safetensors.torch.save(packed))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def load_weights(path: Path) -> dict[str, Tensor]:
    """Read what :func:`save_weights` wrote.

    Raises:
        UserError: there is no such file, or it is damaged.
    """
    try:
        return safetensors.torch.load_file(path)
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(f"cannot read the weights in {path}: {error}", "give the folder of a run that ended") from None
