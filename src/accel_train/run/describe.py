"""Describes a run: its first event, its config.yaml, and the description of its model."""

import os
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from accel_train.checkpoints import run_folder
from accel_train.checkpoints.run_folder import Description
from accel_train.config.derived import is_chosen
from accel_train.config.lr_schedule import SCALINGS
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import PLACEMENT, changed_fields
from accel_train.data.sources.memory import in_memory
from accel_train.distributed.environment import available_cores, launcher_name, local_world_size
from accel_train.distributed.environment_check import obeyed
from accel_train.distributed.ranks import hosts_of
from accel_train.events import DataRecord, HardwareRecord, ModelRecord, PlanRecord, RunStarted, SoftwareRecord
from accel_train.run.build import Run
from accel_train.system.git_commit import commit_of

_PROGRAMS = ("accel_train", "accel-train", "__main__.py")
_PACKAGES = ("accel_train", "torch", "torchvision", "accelerate")
_CACHE = {"device": "on each device", "ram": "shared in RAM", "off": "in each process"}


def run_started(run: Run) -> RunStarted:
    """Return what was asked for and obtained."""
    values, _ = _config_values(run)
    return RunStarted(
        run_folder=str(run.resume_point.folder),
        config=run_folder.plain_values(values),
        changed=changed_fields(run.config, run.given),
        plan=_plan(run),
        hardware=_hardware(run),
        software=_software(),
        data=_data(run),
        model=ModelRecord(
            model=run.config.model,
            parameters=run.built.parameters,
            matches=run.built.notes,
        ),
    )


def config_text(run: Run) -> str:
    """Return YAML that starts this run again on any hardware: every value and its origin."""
    values, origins = _config_values(run)
    return run_folder.config_text(values, origins, PLACEMENT)


def describe_model(run: Run) -> Description:
    """Return what must be known of the model to use its weights."""
    channels, height, width = run.data.train.shape
    return Description(
        model=run.built.name,
        classes=run.contents.classes,
        channels=run.built.channels,
        data_channels=channels,
        data_size=max(height, width),
        image_size=run.built.image_size,
        adapted_to=run.built.adapted_to,
        interpolation=run.data.interpolation,
        mean=run.data.mean,
        std=run.data.std,
        matches=run.built.notes,
        splits=run.contents.splits,
    )


def _config_values(run: Run) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the config's values and their origins, with those that data, model, launcher and search have decided."""
    plan = run.plan
    size = f"{plan.batch_size} × micro-batches {plan.micro_batches}"
    if plan.micro_batches == plan.processes * plan.accumulate:
        size = f"{plan.batch_size} × processes {plan.processes} × accumulate {plan.accumulate}"
    found: dict[str, tuple[Any, str]] = {
        "global_batch_size": (plan.global_batch, f"batch size {size}"),
        "image_size": (run.built.image_size, "as data, model and weights have it"),
        "processes": (plan.processes, launcher_name()),
        "accumulate": (plan.accumulate, "global batch size / (batch size × processes)"),
    }
    values = run.config.model_dump()
    if run.config.auto_micro_batch:  # the search decides, not the values given
        values |= {"batch_size": None, "accumulate": None}
        found["batch_size"] = (plan.batch_size, "--auto-micro-batch")
    origins = {"precision": "launcher" if "ACCELERATE_MIXED_PRECISION" in os.environ else "default"} | run.origins
    for name, (value, origin) in found.items():
        if values[name] is None:
            values[name], origins[name] = value, origin
    return values, origins


def _plan(run: Run) -> PlanRecord:
    config, plan = run.config, run.plan
    return PlanRecord(
        batch_size=plan.batch_size,
        accumulate=plan.accumulate,
        stages=plan.stages,
        global_batch=plan.global_batch,
        epochs=plan.epochs,
        updates_per_epoch=plan.updates_per_epoch,
        total_updates=plan.total_updates,
        images_dropped=plan.images_dropped,
        optimizer=config.optimizer,
        optimizer_settings=OPTIMIZERS[config.optimizer].settings(plan.betas, plan.eps),
        base_lr=config.lr,
        lr_scaling=config.lr_scaling,
        lr_base_batch=config.lr_base_batch or 0,
        lr_cap=_cap(run),
        peak_lr=plan.learning_rate.peak,
        schedule=config.schedule,
        warmup_updates=plan.learning_rate.warmup_updates,
        warmup_from=plan.learning_rate.warmup_from,
        seed=config.seed,
        exact=config.exact,
        ema_half_life=config.ema,
    )


def _cap(run: Run) -> str:
    """Return what limits the peak learning rate, if anything does."""
    config = run.config
    ratio = run.plan.global_batch / (config.lr_base_batch or run.plan.global_batch)
    if config.max_lr is None or config.lr * SCALINGS[config.lr_scaling](ratio) <= config.max_lr:
        return ""
    return "by --max-lr" if is_chosen(run.origins.get("max_lr", "")) else f"for {config.model}"


def _hardware(run: Run) -> HardwareRecord:
    processes = run.processes
    return HardwareRecord(
        world_size=processes.count,
        local_world_size=local_world_size(),
        device_asked=run.config.device,
        device=processes.device_name,
        backend=processes.accelerator.state.backend if processes.count > 1 else None,
        strategy=processes.strategy_name,
        precision=processes.precision,
        threads=torch.get_num_threads(),
        cores=available_cores(),
        launched_by=launcher_name(),
        environment=_environment(run),
        identity=run.identity,
        hosts=hosts_of(processes.ranks),
    )


def _software() -> SoftwareRecord:
    program, *words = sys.argv
    ours = Path(program).name in _PROGRAMS
    return SoftwareRecord(
        command=shlex.join(["accel_train", *words] if ours else ["python", program, *words]),
        commit=commit_of(Path.cwd()),
        versions={"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
    )


def _environment(run: Run) -> tuple[str, ...]:
    given = [name for name in run.origins if getattr(run.config, name) not in (None, "auto", False)]
    applies = ["run", run.processes.strategy.variables, *["compile"] * run.config.compile]
    return obeyed(os.environ, given, applies)


def _data(run: Run) -> DataRecord:
    config, data = run.config, run.data
    channels, height, width = data.train.shape
    return DataRecord(
        data=config.data,
        origin="" if data.origin == f"from {config.data}" else data.origin,
        shape=(channels, height, width),
        train_images=len(data.train),
        val_images=len(data.val),
        classes=len(data.train.classes),
        contents=run.contents.as_record(),
        cache=_CACHE[run.cache] if in_memory(data.train) else "",
        ignored_files=data.ignored_files,
        augment=f"{config.augment}: {config.augmentation}",
    )
