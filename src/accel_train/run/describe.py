"""Tells what a run is: to people, to programs, and to whoever starts it again or uses its weights."""

import os
from typing import Any

import torch

from accel_train.checkpoints import run_folder
from accel_train.checkpoints.run_folder import Description
from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.options import PLACEMENT
from accel_train.distributed import accelerator as distributed
from accel_train.distributed.environment import available_cores, launcher_name, local_world_size
from accel_train.events import RunStarted
from accel_train.run.build import Run

_HELD = {"device": "on each device", "ram": "shared in RAM", "off": "in each process"}
"""By where the images lie."""


def facts(run: Run) -> RunStarted:
    """Return what was asked for and obtained."""
    config, plan, data, accelerator = run.config, run.task.plan, run.data, run.accelerator
    assert config.model
    assert config.augment
    assert config.lr_scaling
    assert config.lr is not None
    channels, height, width = data.train.shape
    return RunStarted(
        run_folder=str(run.place.folder),
        data=f"{config.data} {data.place}: {len(data.train):,} training and {len(data.val):,} validation images "
        f"of {channels} × {height} × {width}, {len(data.train.classes)} classes"
        + f", {_HELD[run.cache]}" * data.train.in_memory
        + f"; {data.ignored_files:,} other files passed over" * bool(data.ignored_files),
        train_images=len(data.train),
        val_images=len(data.val),
        classes=len(data.train.classes),
        model=config.model,
        parameters=sum(p.numel() for p in run.built.module.parameters()),
        matches=run.built.notes,
        augment=f"{config.augment}: {DATA_DEFAULTS[data.kind].augmentation(config.augment)}",
        world_size=accelerator.num_processes,
        local_world_size=local_world_size(),
        device_asked=config.device,
        device=distributed.device_name(accelerator),
        backend=accelerator.state.backend if accelerator.num_processes > 1 else None,
        strategy=distributed.strategy(accelerator),
        precision=run.precision,
        threads=torch.get_num_threads(),
        cores=available_cores(),
        launched_by=launcher_name(),
        batch_size=plan.batch_size,
        accumulate=plan.accumulate,
        global_batch=plan.global_batch,
        epochs=plan.epochs,
        updates_per_epoch=plan.updates_per_epoch,
        total_updates=plan.total_updates,
        images_dropped=plan.images_dropped,
        optimizer=config.optimizer,
        base_lr=config.lr,
        lr_scaling=config.lr_scaling,
        lr_base_batch=config.lr_base_batch or 0,
        peak_lr=plan.learning_rate.peak,
        schedule=config.schedule,
        warmup_updates=plan.learning_rate.warmup_updates,
        warmup_from=plan.learning_rate.warmup_from,
        seed=config.seed,
        exact=config.exact,
        ema_half_life=config.ema,
    )


def config_text(run: Run) -> str:
    """Return the YAML that gives this very run on any hardware: every value, and where it came from."""
    plan = run.task.plan
    size = f"{plan.batch_size} × processes {plan.processes} × accumulate {plan.accumulate}"
    found: dict[str, tuple[Any, str]] = {
        "global_batch_size": (plan.global_batch, f"batch size {size}"),
        "image_size": (run.built.image_size, "as data and model have it"),
        "precision": (run.precision, "launcher" if "ACCELERATE_MIXED_PRECISION" in os.environ else "default"),
        "processes": (plan.processes, launcher_name()),
        "accumulate": (plan.accumulate, "global batch size / (batch size × processes)"),
    }
    values, origins = run.config.model_dump(), dict(run.origins)
    for name, (value, origin) in found.items():
        if values[name] is None:
            values[name], origins[name] = value, origin
    return run_folder.config_text(values, origins, PLACEMENT)


def describe(run: Run) -> Description:
    """Return what must be known of the run's model to use its weights."""
    channels, height, width = run.data.train.shape
    assert run.config.model
    return Description(
        model=run.config.model,
        classes=run.data.train.classes,
        channels=run.built.channels,
        data_channels=channels,
        data_size=max(height, width),
        image_size=run.built.image_size,
        mean=run.data.mean,
        std=run.data.std,
        matches=run.built.notes,
    )
