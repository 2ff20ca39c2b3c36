"""timm's models, with the weights that it publishes and those of Hugging Face hub repositories in its format."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accel_train.config.fields import Fit
from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.errors import UserError, shown
from accel_train.models.base import Architecture, Family, Preprocessing, Weights
from accel_train.models.download import download, torch_cache
from accel_train.models.hub import MissingFileError, hub_file
from accel_train.models.size_limit import values_at_most

PREFIX, _HUB = "timm:", "hf-hub:"
HUB = PREFIX + _HUB
"""Prefix of models that a repository of the hub describes."""
_FILES = ("model.safetensors", "pytorch_model.bin")
"""Names of the weights in a repository, the preferred one first."""
CROP_MODES: dict[Fit, str] = {"crop": "center", "pad": "border", "squash": "squash"}
"""timm's names of how pictures become square; it takes the central crop for all others."""
_OF_TRAINING = {"num_classes", "in_chans", "img_size", "drop_rate", "drop_path_rate", "pretrained"}
"""Arguments of a model in a repository that do not change its architecture, or that a run decides."""


@dataclass(frozen=True)
class _Found:
    """A model of timm, and the configuration of its weights."""

    architecture: str
    config: Any
    """timm's PretrainedCfg."""
    repository: str = ""
    """Of the hub, if the model was named by it."""


def find(name: str) -> Architecture | None:
    """Return the architecture of timm:NAME or timm:hf-hub:OWNER/NAME, None for other names.

    Raises:
        UserError: timm is not installed, or has no such model.
    """
    if not name.startswith(PREFIX):
        return None
    found = _find(name.removeprefix(PREFIX))
    channels, _, size = found.config.input_size
    return Architecture(
        partial(_make, found),
        channels=channels,
        usual_size=size if found.config.fixed_input_size else None,
        sizes=range((found.config.min_input_size or (1, 1, 1))[-1], sys.maxsize),
        published=partial(_published, found),
        name=PREFIX + found.architecture if found.repository else None,
    )


def stored_values(name: str) -> dict[str, Any]:
    """Return what timm stores with the weights of timm:NAME besides their preprocessing: its layers, and whether the
    image size is fixed when the model is made.
    """
    config = _find(name.removeprefix(PREFIX)).config
    return {key: getattr(config, key) for key in ("first_conv", "classifier", "fixed_input_size")}


FAMILY = Family("timm:NAME", names=tuple, find=find)


@cache
def _timm() -> Any:
    try:
        import timm  # takes three seconds: only if needed
        import timm.models
    except ImportError as error:
        raise UserError(f"models named {PREFIX}… need timm: {error}", "pip install 'accel_train[timm]'") from None
    return timm


def _find(name: str) -> _Found:
    timm = _timm()
    if name.startswith(_HUB):
        return _in_hub(name.removeprefix(_HUB))
    architecture, _, tag = name.partition(".")
    if not timm.is_model(architecture):
        close = [PREFIX + each for each in suggestions(architecture, timm.list_models())]
        otherwise = f"give {PREFIX}NAME of timm.list_models(), or {HUB}OWNER/NAME"
        raise UserError(f"unknown model {shown(PREFIX + name)}", did_you_mean(close, otherwise))
    configs = timm.models.get_arch_pretrained_cfgs(architecture)
    if tag and name not in configs:
        tags = [each.partition(".")[2] for each in configs]
        close = [f"{PREFIX}{architecture}.{each}" for each in suggestions(tag, tags)]
        raise UserError(
            f"timm has no weights {shown(tag)} of {architecture}", did_you_mean(close, f"choose {', '.join(tags)}")
        )
    return _Found(architecture, timm.models.get_pretrained_cfg(name))


def _in_hub(repository: str) -> _Found:
    """Read the configuration of a repository: data, no code."""
    timm, name = _timm(), HUB + repository
    hint = "name a repository that timm has written, such as timm/resnet18.a1_in1k"
    try:
        stored = json.loads(hub_file(repository, "config.json").read_bytes())
        known = timm.is_model(stored["architecture"])
        found = _Found(stored["architecture"], _config(stored), repository)
        special = sorted(set(stored.get("model_args") or {}) - _OF_TRAINING)
    except MissingFileError:
        raise UserError(f"{name} has no config.json", hint) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{name} has another config.json than those of timm: {error}", hint) from None
    if not known:
        raise UserError(f"{name} is of the unknown model {shown(found.architecture)}", "install a newer timm")
    if special:
        raise UserError(f"{name} has arguments of a model of its own: {', '.join(special)}", "choose another one")
    return found


def _config(stored: Mapping[str, Any]) -> Any:
    """Return the configuration of weights as timm has it.

    Raises:
        Exception: values are missing or cannot be right.
    """
    config = _timm().models.PretrainedCfg(**_plain(stored.get("pretrained_cfg") or {}))
    names, classes = stored.get("label_names"), int(stored.get("num_classes", config.num_classes))
    labelled = {"label_names": tuple(names)} if isinstance(names, list) else {}
    config = replace(config, architecture=stored["architecture"], num_classes=classes, **labelled)
    if not 1 <= config.input_size[0] == len(_preprocessing(config).mean):
        raise ValueError(f"mean {config.mean} for {config.input_size[0]} channels")
    return config


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a JSON file as timm has them: its lists are tuples, and it names no files."""
    tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return {name: value for name, value in tuples.items() if name not in ("file", "url", "source", "state_dict")}


def _make(found: _Found, classes: int, channels: int, image_size: int) -> nn.Module:
    usual, name = found.config.input_size[-1], PREFIX + found.architecture
    sized = {"img_size": image_size} if found.config.fixed_input_size else {}
    try:
        module: nn.Module = _timm().create_model(found.architecture, num_classes=classes, in_chans=channels, **sized)
        if image_size != usual:
            _try_image(module, channels, image_size)
    except (RuntimeError, ValueError, AssertionError, TypeError) as error:
        if image_size == usual:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        hint = f"give --image-size {usual}, for which it was made, or another multiple of 32"
        raise UserError(f"{name} does not take images of {image_size} pixels: {reason}", hint) from None
    return module


@torch.no_grad()
def _try_image(module: nn.Module, channels: int, image_size: int) -> None:
    """Find out whether a model takes images of a size: timm does not tell it for all."""
    module.eval()
    module(torch.zeros(1, channels, image_size, image_size))
    module.train()


def _published(found: _Found) -> Mapping[str, Callable[[], Weights]]:
    if found.repository:
        return {"DEFAULT": partial(_fetch, found)}
    configs = _timm().models.get_arch_pretrained_cfgs(found.architecture).values()
    chosen = {"DEFAULT": found.config, **{config.tag: config for config in configs}}
    return {tag: partial(_fetch, replace(found, config=each)) for tag, each in chosen.items() if each.has_weights}


def _fetch(found: _Found) -> Weights:
    """Return weights, downloading them if they are not in the cache of the hub or of torch."""
    config = found.config
    file = _weights_file(found)
    name = f"{found.architecture}.{config.tag}" if config.tag and not found.repository else found.repository
    return Weights(
        f"timm's {name} ({file})",
        partial(_read, found, file),
        _preprocessing(config),
        classes=_classes(config),
        headless=() if config.num_classes else _layers(config.classifier),
    )


def _preprocessing(config: Any) -> Preprocessing:
    return Preprocessing(
        image_size=config.input_size[-1],
        mean=tuple(config.mean),
        std=tuple(config.std),
        interpolation="bicubic" if config.interpolation == "bicubic" else "bilinear",
        crop=min(1.0, config.crop_pct),
        fit=next((fit for fit, mode in CROP_MODES.items() if mode == config.crop_mode), "crop"),
    )


def _weights_file(found: _Found) -> Path:
    config = found.config
    repository = found.repository or config.hf_hub_id
    if not repository:
        return download(config.url if isinstance(config.url, str) else config.url[0], torch_cache())
    names = (config.hf_hub_filename,) if config.hf_hub_filename else _FILES
    for name in names:
        try:
            return hub_file(repository, name)
        except MissingFileError:
            continue
    raise UserError(f"{repository} has no {' and no '.join(names)}", "choose other weights")


def _read(found: _Found, file: Path, image_size: int) -> Mapping[str, Any]:
    """Let timm adapt the tensors of a file to its present code and to an image size, with their own head."""
    sized = {"img_size": image_size} if found.config.fixed_input_size else {}
    # timm loads no pickle but with weights_only.
    source = replace(found.config, file=str(file), url=None, hf_hub_id=None, source=None, custom_load=False)
    try:
        with values_at_most(2 * file.stat().st_size):  # anybody may have written the number of classes
            model = _timm().create_model(found.architecture, pretrained=True, pretrained_cfg=source, **sized)
    except Exception as error:  # the readers raise all kinds of errors on a damaged file
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise UserError(f"cannot read the weights in {file}: {reason}", "remove it to download it again") from None
    tensors: Mapping[str, Any] = model.state_dict()
    return tensors


def _classes(config: Any) -> tuple[str, ...] | None:
    """Return the classes of a head, by WordNet ids as the folders of ImageNet are named; None if timm does not tell."""
    if config.label_names:
        return tuple(config.label_names)
    if config.num_classes != 1000 or "in1k" not in (config.tag or ""):
        return None
    from timm.data import ImageNetInfo

    return tuple(ImageNetInfo("imagenet-1k").label_names())


def _layers(names: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names or ())
