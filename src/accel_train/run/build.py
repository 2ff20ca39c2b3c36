"""Builds one run from its config."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from accel_train.checkpoints.run_folder import weights_file
from accel_train.config.defaults import DATA_DEFAULTS, Augmentation, with_defaults
from accel_train.config.options import Cache, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.data.cache import cached
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader, micro_batches_per_read, train_loader
from accel_train.data.open import data_notes, open_data
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import DataSet
from accel_train.data.transforms import ImageTransform
from accel_train.distributed import accelerator as distributed
from accel_train.distributed import process_group
from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError
from accel_train.models.build import BuiltModel, build_model
from accel_train.models.pretrained import load_initial
from accel_train.rng import make_key, seed_libraries
from accel_train.run.resume_point import Place, differences, find_place, same_run
from accel_train.training.batch_norm import RunningStatistics
from accel_train.training.ema import WeightAverage
from accel_train.training.gradients import ExactMean, OrdinaryMean
from accel_train.training.loop import Task
from accel_train.training.metrics import Sums
from accel_train.training.nonfinite import Divergence
from accel_train.training.optimizers import build_optimizer
from accel_train.training.out_of_memory import candidates, largest_fitting, try_update
from accel_train.training.profiler import check_length
from accel_train.training.torch_settings import benchmark_convolutions, compile_model, tune

_COPIES = {"sgd": 1, "adamw": 2}
"""Numbers that an optimizer keeps for each weight."""


@dataclass(frozen=True)
class Run:
    """One run, ready to start: its config with all choices made, and what was built from it."""

    config: TrainConfig
    origins: dict[str, str]
    data: DataSet
    cache: Cache
    """Where its images lie."""
    built: BuiltModel
    precision: str
    place: Place
    notices: tuple[str, ...]
    """What its user should know before it starts."""
    group: Any
    """Of all processes, for small facts."""
    task: Task

    @property
    def accelerator(self) -> Accelerator:
        return self.task.accelerator

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the last bits of a sum, besides the config."""
        device = self.accelerator.device
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
        return {"device": f"{device.type} {kind}", "threads": torch.get_num_threads()}


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
    tune(config.threads, config.exact)
    accelerator, precision = distributed.start(
        device=config.device,
        backend=config.backend,
        precision=config.precision,
        timeout=config.timeout,
        strategy=config.strategy,
    )
    if config.exact and accelerator.is_fsdp2:
        raise UserError("--exact does not work with FSDP yet", "start it with DDP")
    group = process_group.host_group(config.timeout)
    data, cache = cached(data, config, accelerator.device, group)
    config, origins, place = _identify(config, origins, data, accelerator, precision)
    known = distributed.on_main(accelerator, partial(data_notes, config.data))  # which may look at every file
    built, notes = _build_model(config, data, None if place.stored else config.init_from)
    search = config.auto_micro_batch and place.stored is None
    if search and config.global_batch_size:
        config = config.model_copy(update={"batch_size": 1, "accumulate": None})  # to be found
    plan = make_plan(config, accelerator.num_processes, len(data.train))
    dtype = distributed.DTYPES.get(precision, torch.float32)
    if search:
        config, plan, note = _fit_batch(config, plan, built, data, accelerator, group, dtype)
        origins = origins | {"batch_size": "--auto-micro-batch"}
        notes = (*notes, note)
    if config.profile:
        check_length(plan.total_updates)
    task = _prepare(config, data, plan, built, accelerator, group, dtype)
    return Run(config, origins, data, cache, built, precision, place, (*known, *notes), group, task)


def _fit_batch(
    config: TrainConfig,
    plan: Plan,
    built: BuiltModel,
    data: DataSet,
    accelerator: Accelerator,
    group: Any,
    dtype: torch.dtype,
) -> tuple[TrainConfig, Plan, str]:
    """Collective: find the largest batch size that fits on every process and keeps the global batch."""
    transform = _transform(config, data, built, _augmentation(config, data), dtype, accelerator.device)
    train = data.train.at(built.image_size, False)
    module = built.module.to(accelerator.device, dtype).to(memory_format=torch.channels_last)

    kept = _COPIES[config.optimizer] + (config.ema is not None)
    if accelerator.device.type == "cpu":
        kept += kept + 1  # what is saved is copied first, into this memory

    def try_batch(size: int) -> None:
        images = train.read([0] * size, None)[0].to(accelerator.device)
        sums = (plan.global_batch // size).bit_length() if config.exact else 0  # that the tree may hold at a time
        with accelerator.autocast():
            try_update(module, transform(images), len(data.train.classes), copies=kept + sums)

    size = largest_fitting(
        try_batch,
        candidates(plan.global_batch, plan.processes),
        lambda mine: min(found for (found,) in process_group.exchange(group, [mine])),
    )
    config = config.model_copy(update={"batch_size": size, "global_batch_size": plan.global_batch, "accumulate": None})
    note = f"--auto-micro-batch: batches of {size} fit; with BatchNorm or dropout their size changes the results"
    return config, make_plan(config, accelerator.num_processes, len(data.train)), note


def _identify(
    config: TrainConfig, origins: dict[str, str], data: DataSet, accelerator: Accelerator, precision: str
) -> tuple[TrainConfig, dict[str, str], Place]:
    """Collective: make all choices, and find the place of the run; one that goes on keeps the choices it had."""

    def as_now(stored: dict[str, Any]) -> TrainConfig:
        changed = {"epochs": stored["epochs"]}
        if config.warmup_epochs is None:  # else its default would follow the epochs of a run made longer
            changed["warmup_epochs"] = stored["warmup_epochs"]
        chosen, _ = with_defaults(config.model_copy(update=changed), origins, data.kind, len(data.train))
        return chosen.model_copy(update={"precision": precision})

    def same(stored: dict[str, Any]) -> bool:
        return not differences(as_now(stored), stored)

    fresh, fresh_origins = with_defaults(config, origins, data.kind, len(data.train))
    name = f"{Path(config.data).name}_{fresh.model}".replace(":", "_").replace(",", "_")
    place = distributed.on_main(accelerator, lambda: find_place(config.output, config.resume, name, same))
    if place.stored is None:
        return fresh, fresh_origins, place
    assert place.source
    return same_run(as_now(place.stored), config.epochs, place.stored, place.source), origins, place


def _build_model(config: TrainConfig, data: DataSet, initial: Path | None) -> tuple[BuiltModel, tuple[str, ...]]:
    """Build the model on the CPU, from the seed alone or from given weights; say what is worth knowing."""
    assert config.model
    channels, height, width = data.train.shape
    seed_libraries(make_key(config.seed, "weights"))
    built = build_model(
        config.model,
        classes=len(data.train.classes),
        channels=channels,
        data_size=max(height, width),
        image_size=config.image_size,
    )
    return built, load_initial(built.module, weights_file(initial)) if initial else ()


def _prepare(
    config: TrainConfig,
    data: DataSet,
    plan: Plan,
    built: BuiltModel,
    accelerator: Accelerator,
    group: Any,
    dtype: torch.dtype,
) -> Task:
    """Collective: hand model, optimizer and loaders to Accelerate, and gather what the loop needs."""
    assert config.weight_decay is not None
    augmentation = _augmentation(config, data)
    on_cpu = accelerator.device.type == "cpu"
    workers = choose_workers(config.workers, data.train, cores=share_of_cores(), on_cpu=on_cpu)
    train, val = (source.at(built.image_size, augmentation.random_crop) for source in (data.train, data.val))
    module = built.module.to(dtype).to(memory_format=torch.channels_last)
    optimizer = build_optimizer(
        config.optimizer,
        module,
        weight_decay=config.weight_decay,
        betas=plan.betas,
        eps=plan.eps,
        fused=not accelerator.is_fsdp2,
    )
    if config.cudnn_benchmark:
        benchmark_convolutions(accelerator.device)
    if config.compile:
        compile_model(module, accelerator.device)
    pin_memory = workers > 0 and accelerator.device.type == "cuda"
    sizes = LoaderSizes(plan.batch_size, plan.processes, workers, pin_memory)
    order = ImageOrder(config.seed, len(train))
    batch_bytes = plan.batch_size * built.channels * built.image_size**2 * dtype.itemsize
    train_batches, sampler = train_loader(
        train,
        sizes,
        order,
        accumulate=plan.accumulate,
        epochs=plan.epochs,
        per_read=micro_batches_per_read(train, batch_bytes),
    )
    model, optimizer, train_batches, val_batches = distributed.prepare(
        accelerator, module, optimizer, train_batches, evaluation_loader(val, sizes)
    )
    plain = distributed.unwrapped(accelerator, model)
    statistics = RunningStatistics(plain)
    mean_gradient = ExactMean if config.exact else OrdinaryMean
    sums = Sums(accelerator.device)
    return Task(
        accelerator=accelerator,
        model=model,
        optimizer=optimizer.optimizer,
        # Accelerate's, which the loss scaler needs, looks through the installed packages at every update.
        step=optimizer.step if accelerator.scaler else optimizer.optimizer.step,
        train_loader=train_batches,
        val_loader=val_batches,
        sampler=sampler,
        transform=_transform(config, data, built, augmentation, dtype, accelerator.device),
        statistics=statistics,
        gradient=mean_gradient(accelerator, model, statistics, plan),
        average=WeightAverage(plain, 0.5 ** (plan.global_batch / config.ema)) if config.ema else None,
        divergence=Divergence(plain, group, sums, plan.accumulate),
        plan=plan,
        epoch_sums=sums,
        seed=config.seed,
        label_smoothing=config.label_smoothing,
        clip_norm=config.clip_norm,
        log_every=config.log_every,
    )


def _augmentation(config: TrainConfig, data: DataSet) -> Augmentation:
    assert config.augment
    return DATA_DEFAULTS[data.kind].augmentation(config.augment)


def _transform(
    config: TrainConfig,
    data: DataSet,
    built: BuiltModel,
    augmentation: Augmentation,
    dtype: torch.dtype,
    device: torch.device,
) -> ImageTransform:
    return ImageTransform(
        seed=make_key(config.seed, "augment"),
        augmentation=augmentation,
        channels=built.channels,
        size=built.image_size,
        mean=data.mean,
        std=data.std,
        dtype=dtype,
        device=device,
    )
