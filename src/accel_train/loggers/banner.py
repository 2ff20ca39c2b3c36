"""Describes a run at its start: what was requested and what runs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Console

from accel_train.events import DataRecord, HardwareRecord, PlanRecord, RunStarted
from accel_train.loggers.rows import Row, print_rows
from accel_train.loggers.text import learning_rate, quantity


class Option(NamedTuple):
    """A config field that has a row of its own where it differs from its default."""

    label: str
    field: str
    default: Any
    text: Callable[[Any], str]


OPTIONS = (
    Option("init from", "init_from", None, "{}".format),
    Option("limit", "limit", None, "at most {0:,} training and {0:,} validation images".format),
    Option("val fraction", "val_fraction", None, "{:g} held out for validation".format),
    Option("workers", "workers", "auto", "{} per process".format),
    Option("loss", "label_smoothing", 0.0, "label smoothing {:g}".format),
    Option("clipping", "clip_norm", None, "gradient norm at most {:g}".format),
    Option("EMA", "ema", None, "half-life {:,.0f} images; used for evaluation and export".format),
    Option("batch search", "auto_micro_batch", False, "largest batch size that fits into memory".format),
    Option("exact", "exact", False, "bit-identical results on any number of processes".format),
    Option("compile", "compile", False, "on the first update, which takes longer".format),
    Option("cuDNN", "cudnn_benchmark", False, "benchmark: fastest kernels, which may differ between runs".format),
    Option("on NaN", "on_nan", "stop", "{} to the last checkpoint, skip the data since".format),
    Option("target", "target_accuracy", None, "stop at validation accuracy {:g}".format),
    Option("patience", "patience", None, lambda epochs: f"stop after {quantity(epochs, 'epoch')} without improvement"),
    Option("time limit", "time_limit", None, "save and stop within {}".format),
    Option("save every", "save_every", "1epoch", "{}".format),
    Option("keep", "keep", 2, lambda number: f"{quantity(number, 'checkpoint')}, and that of the best epoch"),
    Option("resume", "resume", "auto", "{}".format),
    Option("log every", "log_every", 20, lambda updates: quantity(updates, "update")),
    Option("watch every", "watch_every", 100, lambda updates: quantity(updates, "update") if updates else "never"),
    Option("timeout", "timeout", 300, "{} s".format),
    Option("profile", "profile", False, "some updates, traced into the run folder".format),
)


def print_banner(console: Console, started: RunStarted) -> None:
    """Print the rows of :func:`banner_rows`."""
    print_rows(console, banner_rows(started))


def banner_rows(started: RunStarted) -> list[Row]:
    """Return rows that describe a run: its folder, what it computes and on what."""
    data, model, hardware, plan, config = started.data, started.model, started.hardware, started.plan, started.config
    return [
        ("run", started.run_folder),
        ("data", data.data),
        ("model", f"{model.model}, {quantity(model.parameters, 'parameter')}"),
        *(("", match) for match in model.matches),
        ("devices", _devices(hardware)),
        *_threads(hardware),
        ("strategy", hardware.strategy + (f" over {hardware.backend}" if hardware.backend else "")),
        *_batch(plan, hardware),
        ("optimizer", _optimizer(plan, config["weight_decay"])),
        ("learning rate", f"{_peak(plan)}, {plan.schedule}{_drops(config['milestones'], config['gamma'])}"),
        ("warmup", _warmup(plan)),
        ("updates", _updates(plan)),
        ("dropped", _dropped(plan, data)),
        ("precision", hardware.precision),
        ("augmentation", data.augment),
        ("seed", str(plan.seed)),
        *((row.label, row.text(config[row.field])) for row in OPTIONS if config[row.field] != row.default),
    ]


def _devices(hardware: HardwareRecord) -> str:
    processes = quantity(hardware.world_size, "process", "processes")
    return f"{processes} × {hardware.device} (asked: {hardware.device_asked}), started by {hardware.launched_by}"


def _threads(hardware: HardwareRecord) -> list[Row]:
    rows = [("threads", f"{hardware.threads} per process, {quantity(hardware.cores, 'core')}")]
    share = hardware.cores // hardware.local_world_size
    if hardware.device.startswith("cpu") and hardware.threads < share:
        rows.append(("", f"idle cores: set OMP_NUM_THREADS={share} to use them"))
        if "accelerate" in hardware.launched_by:
            rows.append(("", "(accelerate launch sets it to 1 if it is unset)"))
    return rows


def _batch(plan: PlanRecord, hardware: HardwareRecord) -> list[Row]:
    factors = (
        f"{plan.batch_size} per process × {quantity(hardware.world_size, 'process', 'processes')}"
        f" × {quantity(plan.accumulate, 'accumulation')}"
    )
    rows = [("batch", f"{factors} = {plan.global_batch:,} per update")]
    if plan.global_batch > plan.batch_size:
        flags = f"--global-batch-size {plan.global_batch} --batch-size {plan.batch_size}"
        rows.append(("", f"same run on other hardware: {flags}"))
    return rows


def _optimizer(plan: PlanRecord, weight_decay: float) -> str:
    settings = [_setting(name, value) for name, value in plan.optimizer_settings.items() if value is not False]
    return ", ".join([plan.optimizer, *settings, _setting("weight_decay", weight_decay)])


def _setting(name: str, value: Any) -> str:
    """Return an argument such as ``momentum 0.9``, ``betas (0.9, 0.999)`` or ``nesterov``."""
    name = name.replace("_", " ")
    if value is True:
        return name
    return f"{name} ({', '.join(f'{v:g}' for v in value)})" if isinstance(value, list | tuple) else f"{name} {value:g}"


def _peak(plan: PlanRecord) -> str:
    peak = learning_rate(plan.peak_lr)
    if plan.lr_scaling == "none":
        return f"{peak} (no scaling)"
    base = f"{learning_rate(plan.base_lr)} at {plan.lr_base_batch:,}"
    return f"{base} → {peak} at {plan.global_batch:,} ({plan.lr_scaling})"


def _drops(milestones: list[float] | None, gamma: float | None) -> str:
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
