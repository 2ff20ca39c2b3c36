"""The first lines of a run: at most ten of what matters, or all with --verbose."""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console

from accel_train.events import DataRecord, HardwareRecord, PlanRecord, RunStarted
from accel_train.loggers.full_banner import batch, drops, full_rows, idle_cores, ignored, images, peak
from accel_train.loggers.host_map import host_rows
from accel_train.loggers.rows import Row, print_rows
from accel_train.loggers.text import option_value, quantity

IN_ROWS = {
    *("data", "image_size", "model", "augment", "output", "epochs", "batch_size", "accumulate", "global_batch_size"),
    *("optimizer", "weight_decay", "lr", "lr_scaling", "lr_base_batch", "max_lr"),
    *("warmup_epochs", "schedule", "milestones", "gamma"),
    *("random_crop", "crop_scale", "crop_ratio", "shift", "flip", "vertical_flip", "rotate", "color_jitter"),
    *("rand_augment", "trivial_augment", "random_erasing"),
    *("device", "processes", "backend", "shard_size", "threads", "precision", "report"),
}
"""Fields of the config that the rows show; all others are options in the last one, if they are to be seen."""


def print_banner(console: Console, started: RunStarted, verbose: bool = False) -> None:
    """Print the rows of :func:`banner_rows`, or all rows if `verbose`."""
    print_rows(console, full_rows(started) if verbose else banner_rows(started))


def banner_rows(started: RunStarted) -> list[Row]:
    """Return what tells at a glance what runs, and what was asked for."""
    hardware, plan, config = started.hardware, started.plan, started.config
    model, size = started.model, config["image_size"]
    shown = IN_ROWS | {"strategy"} if hardware.world_size > 1 else IN_ROWS
    asked = [name for name in started.changed if name not in shown]
    return [
        ("run", started.run_folder),
        ("data", _data(started.data)),
        ("model", f"{model.model}, {quantity(model.parameters, 'parameter')}, input {size} × {size}"),
        ("devices", _devices(hardware, with_threads="threads" in started.changed)),
        *(host_rows(hardware.hosts) if len(hardware.hosts) > 1 else []),
        *idle_cores(started),
        ("batch", batch(plan, hardware)),
        ("learning rate", f"{peak(plan)}, {plan.optimizer}, weight decay {config['weight_decay']:g}"),
        ("schedule", _schedule(plan, drops(config["milestones"], config["gamma"]))),
        ("augmentation", started.data.augment),
        *[("options", " ".join(_as_flags(config, asked)))] * bool(asked),
    ]


def _data(data: DataRecord) -> str:
    counts = data.contents["splits"]["train"]["counts"]
    known = counts and sum(counts) == data.train_images  # --limit takes fewer
    sizes = f" of {min(counts):,} to {max(counts):,}" if known and min(counts) < max(counts) else ""
    return f"{data.data}: {images(data)}, {quantity(data.classes, 'class', 'classes')}{sizes}{ignored(data)}"


def _devices(hardware: HardwareRecord, *, with_threads: bool) -> str:
    several = hardware.world_size > 1
    parts = [f"{quantity(hardware.world_size, 'process', 'processes')} × {hardware.device}"]
    if with_threads or hardware.device.startswith("cpu"):
        parts.append(quantity(hardware.threads, "thread") + " each" * several)
    parts.append(hardware.precision)
    if several:
        parts.append(f"{hardware.strategy} over {hardware.backend}")
    if hardware.launched_by != "accel_train":
        parts.append(f"started by {hardware.launched_by}")
    return ", ".join(parts)


def _schedule(plan: PlanRecord, drops: str) -> str:
    epochs = f"{quantity(plan.epochs, 'epoch')} of {quantity(plan.updates_per_epoch, 'update')}"
    warmup = quantity(plan.warmup_updates, "update") if plan.warmup_updates else "none"
    return f"{plan.schedule}{drops} over {epochs} = {plan.total_updates:,}, warmup {warmup}"


def _as_flags(config: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return options as they are given on the command line."""
    flags = []
    for name in names:
        option, value = name.replace("_", "-"), config[name]
        if isinstance(value, bool):
            flags.append(f"--{option}" if value else f"--no-{option}")
        else:
            flags.append(f"--{option} {shlex.quote(option_value(value))}")
    return flags
