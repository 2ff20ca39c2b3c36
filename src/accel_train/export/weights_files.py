"""Writes weights and config.json as timm stores its models, and tells how timm or torchvision load them."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accel_train.errors import UserError
from accel_train.export.preprocessing import preprocessing_of
from accel_train.models import timm_models, torchvision_models, weights_file
from accel_train.run.inference import RunModel

WEIGHTS, CONFIG = "model.safetensors", "config.json"
_SMALL_STEM = (
    "model.conv1, model.maxpool = torch.nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False), torch.nn.Identity()"
)
"""Of ResNets for small images."""


def write_weights(folder: Path, run: RunModel, *, half: bool) -> list[str]:
    """Write the files to a folder, and return their names."""
    tensors = {
        name: tensor.to(torch.float16) if half and tensor.is_floating_point() else tensor
        for name, tensor in run.module.state_dict().items()
    }
    (folder / WEIGHTS).write_bytes(weights_file.encode(tensors))
    (folder / CONFIG).write_bytes(as_json(_config(run)))
    return [WEIGHTS, CONFIG]


def as_json(record: Any) -> bytes:
    """Return JSON for people too; names that are not UTF-8 are escaped."""
    return (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode("utf-8", errors="backslashreplace")


def loading_lines(run: RunModel, folder: str) -> list[str]:
    """Return the lines of a program, at most five, that make the model from the files in a folder.

    Raises:
        UserError: neither timm nor torchvision nor torch alone can make it.
    """
    name, classes = run.description.model, len(run.classes)
    if name.startswith(timm_models.PREFIX):
        return [
            "import timm",
            f"model = timm.create_model({f'local-dir:{folder}'!r}, pretrained=True).eval()",
            "config = timm.data.resolve_model_data_config(model)",
            "transform = timm.data.create_transform(**config)",
            'classes = list(model.pretrained_cfg["label_names"])',
        ]
    if layers := _plain_layers(run.module):
        imports, made = "torch", f"torch.nn.Sequential({', '.join(f'torch.nn.{layer}' for layer in layers)})"
    elif name in torchvision_models.names():
        more = f", image_size={run.description.image_size}" if name.startswith("vit") else ""
        more += ", init_weights=False" if name in ("googlenet", "inception_v3") else ""  # else it warns
        imports, made = "torch, torchvision", f"torchvision.models.get_model({name!r}, num_classes={classes}{more})"
    else:
        raise UserError(
            f"{name} is no model of timm or torchvision: its weights alone are of no use to other programs",
            "use --format onnx or torch-export, which contain the network",
        )
    stem = [_SMALL_STEM] if isinstance(getattr(run.module, "maxpool", None), nn.Identity) else []
    load = f"model.load_state_dict(load_file({f'{folder}/{WEIGHTS}'!r}))"
    return [f"import {imports}", "from safetensors.torch import load_file", f"model = {made}.eval()", *stem, load]


def _plain_layers(module: nn.Module) -> list[str]:
    """Return the layers of a sequence of torch's own as code; nothing if it is none."""
    if type(module) is not nn.Sequential or any(list(layer.children()) for layer in module):
        return []
    if list(module.state_dict()) != list(nn.Sequential(*module).state_dict()):
        return []  # its layers have names
    ours = any(getattr(nn, type(layer).__name__, None) is not type(layer) for layer in module)
    return [] if ours else [repr(layer) for layer in module]


def _config(run: RunModel) -> dict[str, Any]:
    """Return a description of the model as timm reads it."""
    description, picture = run.description, preprocessing_of(run)
    name, classes = description.model, len(run.classes)
    channels, size = description.channels, description.image_size
    mean, std = (values * (channels // len(values)) for values in (picture.mean, picture.std))
    of_timm = timm_models.stored_values(name) if name.startswith(timm_models.PREFIX) else {}
    sized = {"img_size": size} if of_timm.get("fixed_input_size") else {}
    return {
        "architecture": name.removeprefix(timm_models.PREFIX),
        "num_classes": classes,
        "model_args": {"num_classes": classes, "in_chans": channels, **sized},
        "pretrained_cfg": {
            **of_timm,
            "num_classes": classes,
            "input_size": (channels, size, size),
            "mean": mean,
            "std": std,
            "interpolation": picture.interpolation,
            "crop_pct": picture.crop if picture.fit == "crop" else 1.0,  # timm would crop whole pictures, too
            "crop_mode": timm_models.CROP_MODES[picture.fit],
        },
        "label_names": run.classes,
    }
