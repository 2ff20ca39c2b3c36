"""Fills in the defaults of a run; none of them depends on the number of processes."""

from typing import Any

from accel_train.config.defaults import DATA_DEFAULTS, DataDefaults
from accel_train.config.optimizers import BASE_BATCH, OPTIMIZERS
from accel_train.config.options import ResolvedConfig, TrainConfig

_MIN_UPDATES_PER_EPOCH = 13  # small data sets get smaller batches: 20 epochs are then more than 250 updates
_MIN_BATCH = 8  # statistics of BatchNorm over fewer images are too noisy
_MIN_EPOCHS_PER_WARMUP = 5  # warmup takes at most a fifth of the run
_GAMMA = 0.1


def resolve(
    config: TrainConfig, origins: dict[str, str], data_kind: str, train_images: int, precision: str
) -> tuple[ResolvedConfig, dict[str, str]]:
    """Return the config with its defaults filled in, and the origins with those of the defaults.

    `data_kind` is a key of :data:`DATA_DEFAULTS`; `precision` is the one that the launcher and the device allow, and
    its origin is left to the caller.
    """
    defaults = _defaults(config, data_kind, train_images)
    used = {name: default for name, default in defaults.items() if getattr(config, name) is None}
    values = {**dict(config), **{name: value for name, (value, _) in used.items()}, "precision": precision}
    # Not validated again: with values of a stored run, a config may be invalid that is only compared with it.
    return ResolvedConfig.model_construct(**values), origins | {name: origin for name, (_, origin) in used.items()}


def _defaults(config: TrainConfig, data_kind: str, train_images: int) -> dict[str, tuple[Any, str]]:
    """Return the default of each field that may need one, and its origin."""
    data, optimizer = DATA_DEFAULTS[data_kind], OPTIMIZERS[config.optimizer]
    model = config.model or data.model
    epochs = config.epochs or data.epochs
    scaling = config.lr_scaling or ("none" if config.lr is not None else optimizer.scaling)
    for_data, for_optimizer = f"default for {data_kind}", f"default for {config.optimizer}"
    rate, for_model = optimizer.rate(model), f"default for {model} with {config.optimizer}"
    defaults: dict[str, tuple[Any, str]] = {
        "model": (model, for_data),
        "epochs": (epochs, for_data),
        "augment": (data.augment, for_data),
        "batch_size": (_batch_size(config, data, train_images), f"{for_data} of {train_images:,} images"),
        "warmup_epochs": (min(data.warmup_epochs, epochs / _MIN_EPOCHS_PER_WARMUP), for_data),
        "lr": (rate.lr, for_model),
        "lr_scaling": (scaling, "because --lr was given" if config.lr is not None else for_optimizer),
        "weight_decay": (optimizer.weight_decay, for_optimizer),
    }
    if scaling != "none":
        defaults["lr_base_batch"] = (BASE_BATCH, "default")
    if config.lr is None and config.lr_scaling is None:  # what is asked for is done as said
        defaults["max_lr"] = (rate.max_lr, for_model)
    if config.schedule == "step":
        defaults["gamma"] = (_GAMMA, "default")
    return defaults


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
