"""Fills in the defaults of a run; none of them depends on the number of processes."""

import math
from dataclasses import asdict
from typing import Any

from accel_train.config.defaults import CENTRE_SHARE, DATA_DEFAULTS, DataDefaults
from accel_train.config.fields import Fit
from accel_train.config.finetune_panel import BACKBONE
from accel_train.config.optimizers import BASE_BATCH, OPTIMIZERS, default_optimizer
from accel_train.config.options import ResolvedConfig, TrainConfig

_MIN_UPDATES_PER_EPOCH = 13  # small data sets get smaller batches: 20 epochs are then more than 250 updates
_MIN_BATCH = 8  # statistics of BatchNorm over fewer images are too noisy
_MIN_EPOCHS_PER_WARMUP = 5  # warmup takes at most a fifth of the run
_FINE_TUNING_IMAGES = 60_000  # measured: benchmarks/finetune/README.md
_MIN_FINE_TUNING_EPOCHS = 5
# Large batches of few images need more epochs, measured likewise: for 60 updates, or as many of 160 as are cheap.
_MIN_UPDATES = 60
_ENOUGH_UPDATES = 160
_CHEAP_IMAGES = 18_000
_FINE_TUNING_CROP = (0.35, 1.0)  # measured, likewise: a few epochs are too few to learn from a twelfth of a picture
_GAMMA = 0.1


def resolve(
    config: TrainConfig,
    origins: dict[str, str],
    data_kind: str,
    train_images: int,
    precision: str,
    fit_of_weights: tuple[Fit | None, float | None] | None = None,
    architecture: str | None = None,
    replicas: int = 1,
) -> tuple[ResolvedConfig, dict[str, str]]:
    """Return the config with its defaults filled in, and the origins with those of the defaults.

    `data_kind` is a key of :data:`DATA_DEFAULTS`; `precision` is the one that the launcher and the device allow, and
    its origin is left to the caller. `fit_of_weights` is `fit` and `eval_crop` as given weights have them, and
    `architecture` the model that they are for, if that is known and the name of the model does not tell it. `replicas`
    is the number of those of the model: without a global batch size, an update has the batches of all.
    """
    defaults = _defaults(config, data_kind, train_images, architecture, replicas)
    if "fit" in defaults:
        defaults |= _fitted(config, *(fit_of_weights or (None, None)))
    used = {name: default for name, default in defaults.items() if getattr(config, name) is None}
    values = {**dict(config), **{name: value for name, (value, _) in used.items()}, "precision": precision}
    # Not validated again: with values of a stored run, a config may be invalid that is only compared with it.
    return ResolvedConfig.model_construct(**values), origins | {name: origin for name, (_, origin) in used.items()}


def _defaults(
    config: TrainConfig, data_kind: str, train_images: int, architecture: str | None, replicas: int
) -> dict[str, tuple[Any, str]]:
    """Return the default of each field that may need one, and its origin."""
    data, from_weights = DATA_DEFAULTS[data_kind], config.starts_from_weights
    model = config.model or data.model
    trained = (architecture if from_weights else None) or model
    name = config.optimizer or default_optimizer(trained, from_weights=from_weights)
    optimizer = OPTIMIZERS[name]
    batch_size = config.batch_size or _batch_size(config, data, train_images)
    usual_epochs, for_epochs = _epochs(config, data, train_images, batch_size * max(1, replicas))
    epochs = config.epochs or usual_epochs
    scaling = config.lr_scaling or ("none" if config.lr is not None else optimizer.scaling)
    for_data, for_optimizer = f"default for {data_kind}", f"default for {name}"
    rate = optimizer.rate(trained, from_weights=from_weights)
    for_model = f"default for {'fine-tuning ' * from_weights}{trained} with {name}"
    defaults: dict[str, tuple[Any, str]] = {
        "model": (model, for_data),
        "epochs": (epochs, f"default for {data_kind}{for_epochs}"),
        "optimizer": (name, f"default{f' for fine-tuning {trained}' * from_weights}"),
        "batch_size": (batch_size, f"{for_data} of {train_images:,} images"),
        "warmup_epochs": (min(data.warmup_epochs, epochs / _MIN_EPOCHS_PER_WARMUP), for_data),
        "lr": (rate.lr, for_model),
        "lr_scaling": (scaling, "because --lr was given" if config.lr is not None else for_optimizer),
        "weight_decay": (optimizer.weight_decay, for_optimizer),
    }
    defaults |= _augmentation(config, data_kind)
    if config.unfreeze_at is not None:
        defaults["freeze"] = (BACKBONE, "because --unfreeze-at was given")
    if scaling != "none":
        defaults["lr_base_batch"] = (BASE_BATCH, "default")
    if config.lr is None and config.lr_scaling is None:  # what is asked for is done as said
        defaults["max_lr"] = (rate.max_lr, for_model)
    if config.schedule == "step":
        defaults["gamma"] = (_GAMMA, "default")
    return defaults


def _augmentation(config: TrainConfig, data_kind: str) -> dict[str, tuple[Any, str]]:
    """Return what the level of augmentation stands for, apart from options that those given exclude."""
    data = DATA_DEFAULTS[data_kind]
    level, whole = config.augment or data.augment, config.fit in ("pad", "squash")
    of_level = asdict(data.augmentation(level))
    found = {name: (value, f"--augment {level} for {data_kind}") for name, value in of_level.items()}
    found["augment"] = (data.augment, f"default for {data_kind}")
    if config.starts_from_weights:
        found["crop_scale"] = (_FINE_TUNING_CROP, "default with --weights")
    if whole:
        found["random_crop"] = (False, f"because of --fit {config.fit}")
    elif given := [name for name in ("crop_scale", "crop_ratio") if getattr(config, name)]:
        found["random_crop"] = (True, f"because --{given[0].replace('_', '-')} was given")
    if not (found["random_crop"][0] if config.random_crop is None else config.random_crop):
        del found["crop_scale"], found["crop_ratio"]
    if config.rand_augment is not None:
        found["trivial_augment"] = (False, "because --rand-augment was given")
    elif config.trivial_augment is not None:
        found["rand_augment"] = ((0, 0), "because --trivial-augment was given")
    if data_kind == "folder":
        found["fit"] = ("crop", "default")
    return found


def _fitted(config: TrainConfig, fit: Fit | None, crop: float | None) -> dict[str, tuple[Any, str]]:
    """Return how pictures become square unless they are cropped at random, as for the weights if these tell it."""
    of_weights = f"as for --weights {config.weights}"
    found: dict[str, tuple[Any, str]] = {"fit": (fit, of_weights) if fit else ("crop", "default")}
    if config.eval_crop is not None:
        found["fit"] = ("crop", "because --eval-crop was given")
    if (config.fit or found["fit"][0]) == "crop":
        found["eval_crop"] = (CENTRE_SHARE, "default") if crop is None else (crop, of_weights)
    return found


def _epochs(config: TrainConfig, data: DataDefaults, train_images: int, at_once: int) -> tuple[int, str]:
    """Return the default number of epochs, and what it is for besides the data; weights that are given need fewer.

    `at_once` is the number of images in a micro-batch of each replica.
    """
    if not config.starts_from_weights:
        return data.epochs, ""
    origin = f" of {train_images:,} images with --weights"
    enough = max(_MIN_FINE_TUNING_EPOCHS, math.ceil(_FINE_TUNING_IMAGES / train_images))
    usual = min(data.epochs, enough)
    per_update = config.global_batch_size or at_once * (config.accumulate or 1)
    per_epoch = max(1, train_images // per_update)
    cheap = min(math.ceil(_ENOUGH_UPDATES / per_epoch), _CHEAP_IMAGES // train_images)
    for_updates = max(cheap, math.ceil(_MIN_UPDATES / per_epoch))
    if for_updates > usual:
        return for_updates, f"{origin}, {per_update:,} in an update"
    return usual, origin


def _batch_size(config: TrainConfig, data: DataDefaults, train_images: int) -> int:
    if config.global_batch_size is not None:
        return _divisor(config.global_batch_size, data.batch_size, most=train_images)
    size = data.batch_size
    while size > _MIN_BATCH and train_images // size < _MIN_UPDATES_PER_EPOCH:
        size //= 2
    return min(size, train_images)


def _divisor(global_batch: int, usual: int, most: int) -> int:
    """Return the largest divisor up to `usual`; if BatchNorm needs more images, the smallest from there to `most`."""
    largest = max(n for n in range(1, usual + 1) if global_batch % n == 0)
    if largest >= min(_MIN_BATCH, global_batch):
        return largest
    return next((n for n in range(usual + 1, most + 1) if global_batch % n == 0), largest)
