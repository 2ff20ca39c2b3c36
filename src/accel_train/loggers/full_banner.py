"""Describes a run at its start in full, for --verbose: what was requested and what runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from accel_train.events import DataRecord, HardwareRecord, PlanRecord, RunStarted
from accel_train.loggers.host_map import host_rows
from accel_train.loggers.rows import Row
from accel_train.loggers.text import learning_rate, option_value, quantity


class Option(NamedTuple):
    """How an option is described that has a row of its own."""

    label: str
    text: Callable[[Any], str]
    off: str = "off"
    """Shown if it is switched off: False, 0 or None."""


IN_OTHER_ROWS = {
    *("data", "data_dir", "cache", "image_size", "model", "augment", "output", "seed", "epochs"),
    *("batch_size", "accumulate", "global_batch_size", "optimizer", "weight_decay", "lr", "lr_scaling"),
    *("lr_base_batch", "max_lr", "warmup_epochs", "warmup_from", "schedule", "milestones", "gamma"),
    *("random_crop", "crop_scale", "crop_ratio", "shift", "flip", "vertical_flip", "rotate", "color_jitter"),
    *("rand_augment", "trivial_augment", "random_erasing"),
    *("device", "processes", "backend", "strategy", "shard_size", "threads", "precision"),
    *("pipeline_stages", "pipeline_schedule", "report"),
}
"""Fields of the config that the fixed rows show."""

_FITS = {"crop": "the central square", "pad": "whole pictures, between margins", "squash": "whole pictures, distorted"}
_ON_NAN = {"stop": "stop", "rollback": "rollback to the last checkpoint, skip the data since"}
OPTIONS = {
    "mixup": Option("mixup", "shares from Beta({0:g}, {0:g})".format),
    "cutmix": Option("CutMix", "shares from Beta({0:g}, {0:g})".format),
    "repeated_augmentation": Option(
        "repeats", lambda times: f"each image {times} times in an update, augmented differently" if times > 1 else "off"
    ),
    "limit": Option("limit", "at most {0:,} training and {0:,} validation images".format),
    "val_fraction": Option("val fraction", "{:g} held out for validation".format),
    "fit": Option("fit", lambda fit: _FITS[fit]),
    "eval_crop": Option("central crop", "{:g} of the shorter side".format),
    "stochastic_depth": Option("residuals", "stochastic depth {:g}".format, off="no stochastic depth"),
    "zero_init_residual": Option("zero init", "residual blocks are identities at first".format),
    "batch_norm_momentum": Option("BatchNorm", "momentum {:g}".format),
    "head_lr_multiplier": Option("head rate", "× {:g}".format),
    "workers": Option("workers", "{} per process".format),
    "label_smoothing": Option("loss", "label smoothing {:g}".format, off="no label smoothing"),
    "clip_norm": Option("clipping", "gradient norm at most {:g}".format),
    "ema": Option("EMA", "half-life {:,.0f} images; used for evaluation and export".format),
    "auto_micro_batch": Option("batch search", "largest batch size that fits into memory".format),
    "exact": Option("exact", "bit-identical results on any number of processes".format),
    "compile": Option("compile", "on the first update, which takes longer".format),
    "activation_checkpointing": Option("activations", "computed again in the backward pass, block by block".format),
    "pipeline_split": Option("split", lambda names: f"stages start at {', '.join(names)}"),
    "cudnn_benchmark": Option("cuDNN", "benchmark: fastest kernels, which may differ between runs".format),
    "on_nan": Option("on NaN", lambda action: _ON_NAN[action]),
    "target_accuracy": Option("target", "stop at validation accuracy {:g}".format),
    "patience": Option("patience", lambda epochs: f"stop after {quantity(epochs, 'epoch')} without improvement"),
    "time_limit": Option("time limit", "save and stop within {}".format),
    "keep": Option("keep", lambda number: f"{quantity(number, 'checkpoint')}, and that of the best epoch"),
    "log_every": Option("log every", lambda updates: quantity(updates, "update")),
    "watch_every": Option("watch every", lambda updates: quantity(updates, "update"), off="never"),
    "tracker_project": Option("project", str),
    "timeout": Option("timeout", "{} s".format),
    "profile": Option("profile", "some updates, traced into the run folder".format),
}
"""By field of the config; a field that is in neither of these is shown with its name and value."""


_MOST_CLASSES = 10


def full_rows(started: RunStarted) -> list[Row]:
    """Return rows that describe a run: its folder, what it computes and on what."""
    data, model, hardware, plan, config = started.data, started.model, started.hardware, started.plan, started.config
    return [
        ("run", started.run_folder),
        ("data", _data(data)),
        ("classes", _classes(data)),
        ("model", f"{model.model}, {quantity(model.parameters, 'parameter')}"),
        *(("", match) for match in model.matches),
        ("devices", _devices(hardware)),
        *(host_rows(hardware.hosts) if hardware.world_size > 1 else []),
        ("threads", f"{hardware.threads} per process, {quantity(hardware.cores, 'core')}"),
        *idle_cores(started),
        *[("environment", ", ".join(hardware.environment))] * bool(hardware.environment),
        *[("identity", ", ".join(map(" ".join, hardware.identity.items())))] * plan.exact,
        ("strategy", hardware.strategy + (f" over {hardware.backend}" if hardware.backend else "")),
        ("batch", batch(plan, hardware)),
        *_elsewhere(plan),
        ("optimizer", _optimizer(plan, config["weight_decay"])),
        ("learning rate", f"{peak(plan)}, {plan.schedule}{drops(config['milestones'], config['gamma'])}"),
        ("warmup", _warmup(plan)),
        ("updates", _updates(plan)),
        ("dropped", _dropped(plan, data)),
        ("precision", hardware.precision),
        ("augmentation", data.augment),
        ("seed", str(plan.seed)),
        *(_option(name, config[name]) for name in started.changed if name not in IN_OTHER_ROWS),
    ]


def _option(name: str, value: Any) -> Row:
    """Return the row of an option that differs from its default, or that the user typed."""
    option = OPTIONS.get(name, Option(name.replace("_", " "), option_value))
    return option.label, option.text(value) if value else option.off


def _data(data: DataRecord) -> str:
    where = f"{data.data} {data.origin}".strip()
    of_shape = f"of {' × '.join(map(str, data.shape))}, {quantity(data.classes, 'class', 'classes')}"
    stored = f", {data.cache}" * bool(data.cache)
    return f"{where}: {images(data)} {of_shape}{stored}{ignored(data)}"


def images(data: DataRecord) -> str:
    """Return the numbers of images."""
    return f"{data.train_images:,} training and {data.val_images:,} validation images"


def ignored(data: DataRecord) -> str:
    """Return the number of files that are no pictures, if there are any."""
    return f"; {quantity(data.ignored_files, 'other file')} ignored" * bool(data.ignored_files)


def _classes(data: DataRecord) -> str:
    """Return the first classes, each with the number of its training and validation images."""
    names, splits = data.contents["classes"], data.contents["splits"]
    train, val = splits["train"]["counts"], splits["val"]["counts"]
    counts = [f" {a:,} + {b:,}" for a, b in zip(train, val, strict=True)] if train and val else [""] * len(names)
    listed = [f"{name}{count}" for name, count in zip(names, counts, strict=True)]
    more = len(listed) - _MOST_CLASSES
    return ", ".join(listed[:_MOST_CLASSES]) + f", and {more:,} more" * (more > 0)


def _devices(hardware: HardwareRecord) -> str:
    processes = quantity(hardware.world_size, "process", "processes")
    return f"{processes} × {hardware.device} (asked: {hardware.device_asked}), started by {hardware.launched_by}"


def idle_cores(started: RunStarted) -> list[Row]:
    """Return how to use the cores that a run on CPUs leaves idle, if there are any and --threads is not given."""
    hardware = started.hardware
    share = hardware.cores // hardware.local_world_size
    if not hardware.device.startswith("cpu") or hardware.threads >= share or "threads" in started.changed:
        return []
    rows = [("", f"idle cores: set --threads {share} to use them")]
    if "accelerate" in hardware.launched_by and not started.plan.exact:
        rows.append(("", "(accelerate launch sets OMP_NUM_THREADS=1 if it is unset)"))
    return rows


def batch(plan: PlanRecord, hardware: HardwareRecord) -> str:
    """Return how many images make an update."""
    micro_batches, count = plan.global_batch // plan.batch_size, hardware.world_size // plan.stages
    one, several = ("replica", "replicas") if plan.stages > 1 else ("process", "processes")
    replicas = quantity(count, one, several)
    factors = f"{plan.batch_size} per {one} × {replicas} × {quantity(plan.accumulate, 'accumulation')}"
    if micro_batches % count:
        factors = f"{micro_batches} micro-batches of {plan.batch_size} on {replicas}"
    return f"{factors} = {plan.global_batch:,} per update"


def _elsewhere(plan: PlanRecord) -> list[Row]:
    if plan.global_batch == plan.batch_size:
        return []
    flags = f"--global-batch-size {plan.global_batch} --batch-size {plan.batch_size}"
    return [("", f"same run on other hardware: {flags}")]


def _optimizer(plan: PlanRecord, weight_decay: float) -> str:
    settings = [_setting(name, value) for name, value in plan.optimizer_settings.items() if value is not False]
    return ", ".join([plan.optimizer, *settings, _setting("weight_decay", weight_decay)])


def _setting(name: str, value: Any) -> str:
    """Return an argument such as ``momentum 0.9``, ``betas (0.9, 0.999)`` or ``nesterov``."""
    name = name.replace("_", " ")
    if value is True:
        return name
    return f"{name} ({', '.join(f'{v:g}' for v in value)})" if isinstance(value, list | tuple) else f"{name} {value:g}"


def peak(plan: PlanRecord) -> str:
    """Return the peak learning rate and what it follows from."""
    scaled = learning_rate(plan.peak_lr)
    if plan.lr_scaling == "none":
        return f"{scaled} (no scaling)"
    base = f"{learning_rate(plan.base_lr)} at {plan.lr_base_batch:,}"
    capped = f", capped {plan.lr_cap}" if plan.lr_cap else ""
    return f"{base} → {scaled} at {plan.global_batch:,} ({plan.lr_scaling}{capped})"


def drops(milestones: list[float] | None, gamma: float | None) -> str:
    """Return when a step schedule lowers the learning rate."""
    if not milestones:
        return ""
    return f" × {gamma:g} at epoch {', '.join(f'{epoch:g}' for epoch in milestones)}"


def _warmup(plan: PlanRecord) -> str:
    if not plan.warmup_updates:
        return "none"
    return f"{quantity(plan.warmup_updates, 'update')} from {learning_rate(plan.warmup_from)}"


def _updates(plan: PlanRecord) -> str:
    epochs = quantity(plan.epochs, "epoch")
    return f"{plan.updates_per_epoch:,} per epoch × {epochs} = {plan.total_updates:,}"


def _dropped(plan: PlanRecord, data: DataRecord) -> str:
    if not plan.images_dropped:
        return "none"
    return f"{plan.images_dropped:,} of {data.train_images:,} images (incomplete last batch) per epoch"
