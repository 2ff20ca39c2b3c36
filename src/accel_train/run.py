"""Builds one run from its config and carries it out."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from accel_train import distributed, engine, run_folder
from accel_train.checkpoint import save_weights
from accel_train.config import PLACEMENT, TrainConfig
from accel_train.data.augment import ImageTransform
from accel_train.data.catalog import open_data
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader, train_loader
from accel_train.data.sources import DataSet
from accel_train.defaults import DATA_DEFAULTS, with_defaults
from accel_train.engine import Stopping, Task
from accel_train.events import EpochEnd, Event, RunEnded, RunStarted
from accel_train.launch import available_cores, launcher_name, local_world_size
from accel_train.models import BuiltModel, build_model
from accel_train.optim import build_optimizer
from accel_train.plan import Plan, make_plan
from accel_train.random_keys import make_key, seed_libraries
from accel_train.run_folder import WEIGHTS, Description
from accel_train.running_statistics import RunningStatistics


@dataclass(frozen=True)
class Run:
    """One run, ready to start: its config with all choices made, and what was built from it."""

    config: TrainConfig
    origins: dict[str, str]
    data: DataSet
    built: BuiltModel
    precision: str
    folder: Path
    task: Task

    @property
    def accelerator(self) -> Accelerator:
        return self.task.accelerator


def build_run(config: TrainConfig, origins: dict[str, str]) -> Run:
    """Collective: build a run from a config and the origin of each of its values; write nothing.

    Raises:
        UserError: something asked for cannot be had.
    """
    data = open_data(
        config.data,
        directory=config.data_dir,
        val_fraction=config.val_fraction,
        seed=config.seed,
        limit=config.limit,
    )
    config, origins = with_defaults(config, origins, data.kind, len(data.train))
    accelerator, precision = distributed.start(
        device=config.device, backend=config.backend, precision=config.precision, timeout=config.timeout
    )
    plan = make_plan(config, accelerator.num_processes, len(data.train))
    built = _build_model(config, data)
    name = f"{Path(config.data).name}_{config.model}".replace(":", "_").replace(",", "_")
    folder = distributed.on_main(accelerator, lambda: run_folder.choose(config.output, name))
    task = _prepare(config, data, plan, built, accelerator, distributed.DTYPES.get(precision, torch.float32))
    return Run(config, origins, data, built, precision, folder, task)


def create_folder(run: Run) -> None:
    """Collective: make the run's folder and write what identifies the run.

    Raises:
        UserError: the system refuses.
    """
    distributed.on_main(run.accelerator, lambda: _write_folder(run))


def events(run: Run) -> Iterator[Event]:
    """Collective: train, save, and yield what happens."""
    yield facts(run)
    for event in engine.train(run.task, Stopping(run.config.target_accuracy, run.config.patience)):
        if isinstance(event, EpochEnd) and event.best:
            save_weights(run.accelerator, run.task.model, run.folder / WEIGHTS["best"])
        if isinstance(event, RunEnded):
            save_weights(run.accelerator, run.task.model, run.folder / WEIGHTS["last"])
        yield event


def facts(run: Run) -> RunStarted:
    """Return what was asked for and obtained."""
    config, plan, data, accelerator = run.config, run.task.plan, run.data, run.accelerator
    assert config.model
    assert config.augment
    assert config.lr_scaling
    assert config.lr is not None
    channels, height, width = data.train.shape
    return RunStarted(
        run_folder=str(run.folder),
        data=f"{config.data} {data.place}: {len(data.train):,} training and {len(data.val):,} validation images "
        f"of {channels} × {height} × {width}, {len(data.train.classes)} classes"
        + f"; {data.ignored_files:,} other files passed over"
        * bool(data.ignored_files),
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


def _build_model(config: TrainConfig, data: DataSet) -> BuiltModel:
    """Build the model on the CPU, from the seed alone."""
    assert config.model
    channels, height, width = data.train.shape
    seed_libraries(make_key(config.seed, "weights"))
    return build_model(
        config.model,
        classes=len(data.train.classes),
        channels=channels,
        data_size=max(height, width),
        image_size=config.image_size,
    )


def _prepare(
    config: TrainConfig,
    data: DataSet,
    plan: Plan,
    built: BuiltModel,
    accelerator: Accelerator,
    dtype: torch.dtype,
) -> Task:
    """Collective: hand model, optimizer and loaders to Accelerate, and gather what the loop needs."""
    assert config.augment
    assert config.weight_decay is not None
    augmentation = DATA_DEFAULTS[data.kind].augmentation(config.augment)
    workers = choose_workers(config.workers, data.train)
    train, val = (source.at(built.image_size, augmentation.random_crop) for source in (data.train, data.val))
    if workers == 0:  # else worker processes read, who cannot share the device
        train, val = train.to(accelerator.device), val.to(accelerator.device)
    module = built.module.to(dtype).to(memory_format=torch.channels_last)
    optimizer = build_optimizer(
        config.optimizer, module, weight_decay=config.weight_decay, betas=plan.betas, eps=plan.eps
    )
    pin_memory = workers > 0 and accelerator.device.type == "cuda"
    sizes = LoaderSizes(plan.batch_size, plan.processes, workers, pin_memory)
    model, optimizer, train_batches, val_batches = accelerator.prepare(
        module,
        optimizer,
        train_loader(train, sizes, seed=config.seed, accumulate=plan.accumulate),
        evaluation_loader(val, sizes),
    )
    return Task(
        accelerator=accelerator,
        model=model,
        optimizer=optimizer,
        train_loader=train_batches,
        val_loader=val_batches,
        transform=ImageTransform(
            seed=make_key(config.seed, "augment"),
            augmentation=augmentation,
            channels=built.channels,
            size=built.image_size,
            mean=data.mean,
            std=data.std,
            dtype=dtype,
            device=accelerator.device,
        ),
        statistics=RunningStatistics(distributed.unwrapped(accelerator, model)),
        plan=plan,
        seed=config.seed,
        label_smoothing=config.label_smoothing,
        clip_norm=config.clip_norm,
        log_every=config.log_every,
    )


def _write_folder(run: Run) -> None:
    channels, height, width = run.data.train.shape
    assert run.config.model
    run_folder.make(run.folder)
    run_folder.write(
        run.folder,
        config_text(run),
        Description(
            model=run.config.model,
            classes=run.data.train.classes,
            channels=run.built.channels,
            data_channels=channels,
            data_size=max(height, width),
            image_size=run.built.image_size,
            mean=run.data.mean,
            std=run.data.std,
            matches=run.built.notes,
        ),
    )
