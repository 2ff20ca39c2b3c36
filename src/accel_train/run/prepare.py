"""Makes optimizer and loaders, hands them with the model to `Accelerator.prepare`, and assembles the training loop."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader, micro_batches_per_read, train_loader
from accel_train.data.sampler import ImageOrder, UpdateSampler
from accel_train.data.sources.base import DataSet
from accel_train.data.sources.labels import LabelsOnly
from accel_train.data.transforms import ImageTransform, no_images
from accel_train.data.worker_batches import Batch
from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.environment import share_of_cores
from accel_train.distributed.strategies.inputs import Division
from accel_train.distributed.watchdog import Watchdog
from accel_train.errors import UserError
from accel_train.models.build import BuiltModel
from accel_train.run.class_balance import balance_notes, balanced_draws, class_weights
from accel_train.run.fine_tuning import FineTuning
from accel_train.run.images import training_transform, view_of
from accel_train.run.learning_notes import at_start
from accel_train.run.remedies import after_divergence
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.batch_size_search import largest_fitting, try_update
from accel_train.training.early_stopping import EarlyStopping
from accel_train.training.ema import Ema
from accel_train.training.evaluate import Validation
from accel_train.training.freezing import Freezing
from accel_train.training.gradient_norms import GradientNorms
from accel_train.training.gradients import StrategyAverage, TreeAverage
from accel_train.training.loop import Training
from accel_train.training.loss import Loss
from accel_train.training.metrics import Sums
from accel_train.training.micro_batches import TrainBatches
from accel_train.training.mixing import Mixing
from accel_train.training.nonfinite import NonfiniteCheck
from accel_train.training.optimizers import SpecialParameters, build_optimizer, hidden_matrices
from accel_train.training.out_of_memory import candidate_batch_sizes
from accel_train.training.random_numbers import RandomNumbers
from accel_train.training.rank_report import RankReport
from accel_train.training.timing import Timing
from accel_train.training.torch_settings import benchmark_convolutions, compile_model
from accel_train.training.updater import Updater


def plan_updates(
    config: ResolvedConfig, data: DataSet, built: BuiltModel, processes: Processes, *, resumed: bool
) -> tuple[Plan, tuple[str, ...]]:
    """Collective: return the plan, with the largest batch size that fits if that is asked for, and notices.

    A resumed run keeps the batch size that was found.
    """
    if not config.auto_micro_batch or resumed:
        try:
            plan = make_plan(config, processes.count, len(data.train), stages=processes.strategy.stages)
        except UserError as error:
            raise _with_hint(error, config, processes.strategy.stages) if resumed else error from None
        return plan, () if resumed else (*balance_notes(config, data.train), *at_start(config, plan))
    # The global batch is given, or follows from --batch-size; the search keeps it.
    any_size = 1 if config.global_batch_size else None
    plan = make_plan(config, processes.count, len(data.train), batch_size=any_size)
    size = _largest_batch_size(config, plan, data, built, processes)
    notice = f"--auto-micro-batch: batches of {size} fit; with BatchNorm or dropout their size changes the results"
    return plan.with_batch_size(size), (notice, *balance_notes(config, data.train), *at_start(config, plan))


def _with_hint(error: UserError, config: ResolvedConfig, stages: int) -> UserError:
    """Return an error with the hint that a resumed run, which keeps its batches, needs."""
    micro_batches = (config.global_batch_size or config.batch_size) // config.batch_size
    most = micro_batches * stages
    return UserError(error.message, f"a resumed run keeps its batches; give --processes {most} or fewer")


def prepare(
    config: ResolvedConfig,
    plan: Plan,
    data: DataSet,
    built: BuiltModel,
    processes: Processes,
    watchdog: Watchdog,
    tuning: FineTuning,
) -> Training:
    """Collective: prepare model, optimizer and loaders, and return the parts of the loop."""
    accelerator, strategy, classes = processes.accelerator, processes.strategy, len(data.train.classes)
    random_numbers = RandomNumbers(config.seed, [] if config.compile else built.drawing_blocks())
    module = built.module.to(processes.dtype).to(memory_format=torch.channels_last)
    tuning.freezing.exclude(module)
    hidden = hidden_matrices(module)
    strategy.divide(accelerator, module, _division(config, plan, built, processes, watchdog))
    optimizer = _optimizer(config, plan, module, processes, tuning, hidden)
    train, val, sampler = _loaders(config, plan, data, built, processes)
    model, optimizer, train, val = strategy.prepare(accelerator, module, optimizer, train, val)
    plain = strategy.plain_model(accelerator, model)
    loss = Loss(config.label_smoothing, class_weights(config, data.train, processes.device, processes.dtype), classes)
    parts = {"random_numbers": random_numbers, "loss": loss, "tick": watchdog.tick}
    updater = _updater(config, plan, processes, model, optimizer, tuning.freezing, **parts)
    transform = no_images if processes.rank % plan.stages else _transform(config, data, built, processes)
    mixing = Mixing(config.seed, config.mixup, config.cutmix, built.image_size)
    per_update = len(updater.own)
    diverged = partial(after_divergence, config, plan)
    return Training(
        plan=plan,
        batches=TrainBatches(train, sampler, transform, plan.batch_size, mixing, updater.own, plan.accumulate),
        updater=updater,
        validation=Validation(accelerator, model, val, transform, classes, updater.ema),
        nonfinite=NonfiniteCheck(plain, strategy, processes.group, updater.epoch_sums, plan, per_update, hint=diverged),
        early_stopping=EarlyStopping(config.target_accuracy, config.patience),
        rank_report=_rank_report(config, plain, processes),
        log_every=config.log_every,
        freezing=tuning.freezing,
    )


def _updater(
    config: ResolvedConfig,
    plan: Plan,
    processes: Processes,
    model: nn.Module,
    optimizer: Any,
    freezing: Freezing,
    **parts: Any,
) -> Updater:
    accelerator, strategy = processes.accelerator, processes.strategy
    plain = strategy.plain_model(accelerator, model)
    batch_norm = BatchNormBuffers(plain)
    average = TreeAverage if config.exact else StrategyAverage
    decay = 0.5 ** (plan.global_batch / config.ema) if config.ema else 1
    return Updater(
        accelerator=accelerator,
        model=model,
        prepared_optimizer=optimizer,
        strategy=strategy,
        gradients=average(accelerator, strategy, model, batch_norm, plan),
        batch_norm=batch_norm,
        ema=Ema(plain, decay, strategy, freezing.constant) if config.ema else None,
        plan=plan,
        own=plan.blocks[processes.rank // plan.stages],
        clip_norm=config.clip_norm,
        epoch_sums=Sums(processes.device),
        timing=Timing(),
        norms=GradientNorms(accelerator, strategy, model, plan) if plan.micro_batches > 1 else None,
        **parts,
    )


def _transform(config: ResolvedConfig, data: DataSet, built: BuiltModel, processes: Processes) -> ImageTransform:
    return training_transform(config, data, built, dtype=processes.dtype, device=processes.device)


def _rank_report(config: ResolvedConfig, plain: nn.Module, processes: Processes) -> RankReport | None:
    if config.rank_lines == "none":
        return None
    return RankReport(processes.group, processes.strategy, plain, processes.device_name)


def _division(
    config: ResolvedConfig, plan: Plan, built: BuiltModel, processes: Processes, watchdog: Watchdog
) -> Division:
    images_BCHW = torch.linspace(-1, 1, plan.batch_size * built.channels * built.image_size**2, dtype=processes.dtype)
    shape = (plan.batch_size, built.channels, built.image_size, built.image_size)
    return Division(
        blocks=built.blocks,
        images_BCHW=images_BCHW.view(shape).contiguous(memory_format=torch.channels_last),
        micro_batches=(len(plan.blocks[processes.rank // plan.stages]), plan.accumulate),
        on_main=processes.on_main,
        tick=watchdog.tick,
        timeout=config.timeout,
    )


def _optimizer(
    config: ResolvedConfig,
    plan: Plan,
    module: nn.Module,
    processes: Processes,
    tuning: FineTuning,
    hidden: frozenset[str],
) -> torch.optim.Optimizer:
    optimizer = build_optimizer(
        config.optimizer,
        module,
        weight_decay=config.weight_decay,
        betas=plan.betas,
        eps=plan.eps,
        fused=processes.strategy.fused_optimizer,
        special=SpecialParameters(tuning.lr_factors, tuning.freezing.later, hidden),
    )
    if config.cudnn_benchmark:
        benchmark_convolutions(processes.device)
    if config.compile:
        compile_model(module, processes.device)
    return optimizer


def _loaders(
    config: ResolvedConfig, plan: Plan, data: DataSet, built: BuiltModel, processes: Processes
) -> tuple[DataLoader[Batch], DataLoader[Batch], UpdateSampler]:
    on_cpu, on_gpu = processes.device.type == "cpu", processes.device.type == "cuda"
    workers = choose_workers(config.workers, data.train, cores=share_of_cores(), on_cpu=on_cpu)
    pin_memory = workers > 0 and on_gpu
    sizes = LoaderSizes(plan.batch_size, plan.replicas, workers, pin_memory, stages=plan.stages)
    train, val = data.train, data.val
    if processes.rank % plan.stages:
        train, val, sizes = LabelsOnly(train), LabelsOnly(val), replace(sizes, workers=0)
    view = view_of(config, built.image_size, data.interpolation)
    batch_bytes = plan.batch_size * built.channels * built.image_size**2 * processes.dtype.itemsize
    train_batches, sampler = train_loader(
        train,
        view,
        sizes,
        ImageOrder(config.seed, len(data.train), config.repeated_augmentation, balanced_draws(config, data.train)),
        blocks=plan.blocks,
        epochs=plan.epochs,
        per_read=micro_batches_per_read(data.train, batch_bytes),
    )
    return train_batches, evaluation_loader(val, view, sizes), sampler


def _largest_batch_size(
    config: ResolvedConfig, plan: Plan, data: DataSet, built: BuiltModel, processes: Processes
) -> int:
    """Collective: find the largest batch size that fits on every process and divides its share of the global batch."""
    transform = _transform(config, data, built, processes)
    module = built.module.to(processes.device, processes.dtype).to(memory_format=torch.channels_last)
    copies = OPTIMIZERS[config.optimizer].states_per_weight + (config.ema is not None)
    if processes.device.type == "cpu":
        copies += copies + 1  # checkpoints are copied to the same memory first

    view = view_of(config, built.image_size, data.interpolation)

    def try_batch(size: int) -> None:
        images = data.train.read([0] * size, None, view)[0].to(processes.device)
        sums = (plan.global_batch // size).bit_length() if config.exact else 0  # that the tree may hold at once
        with processes.accelerator.autocast():
            try_update(module, transform(images), len(data.train.classes), copies=copies + sums)

    return largest_fitting(
        try_batch,
        candidate_batch_sizes(plan.global_batch, plan.processes),
        lambda size: min(found for (found,) in process_group.exchange(processes.group, [size])),
    )
