"""Builds one run from its config."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from accel_train.checkpoints.run_folder import weights_file
from accel_train.config.fields import Cache
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan
from accel_train.config.resolve import resolve
from accel_train.data.cache import cached
from accel_train.data.open import data_notes, open_data
from accel_train.data.sources.base import DataSet
from accel_train.distributed.accelerator import Processes, start
from accel_train.distributed.strategies.base import Strategy
from accel_train.distributed.watchdog import Watchdog
from accel_train.errors import UserError
from accel_train.models.build import BuiltModel, build_model
from accel_train.models.pretrained import load_initial
from accel_train.rng import make_key, seed_libraries
from accel_train.run.prepare import plan_updates, prepare
from accel_train.run.resume_point import ResumePoint, differences, find_resume_point, same_run
from accel_train.system.folder_lock import FolderLock
from accel_train.training.loop import Training
from accel_train.training.profiler import check_length
from accel_train.training.torch_settings import set_torch_options


@dataclass(frozen=True)
class Run:
    """One run, ready to start, and what it was built from."""

    config: ResolvedConfig
    origins: dict[str, str]
    data: DataSet
    cache: Cache
    """Where the images are held."""
    built: BuiltModel
    resume_point: ResumePoint
    notices: tuple[str, ...]
    """What the user should know before the run starts."""
    processes: Processes
    plan: Plan
    training: Training
    watchdog: Watchdog
    lock: FolderLock
    """On the run folder."""

    def close(self) -> None:
        """Collective: let go of the run folder and of the other processes."""
        self.watchdog.stop()
        self.lock.release()

    @property
    def plain_model(self) -> nn.Module:
        """The model without wrappers."""
        return self.processes.strategy.plain_model(self.processes.accelerator, self.training.updater.model)

    @property
    def identity(self) -> dict[str, Any]:
        """What decides the last bits of a sum, besides the config."""
        device = self.processes.device
        kind = torch.cuda.get_device_name(device) if device.type == "cuda" else torch.backends.cpu.get_cpu_capability()
        return {"device": f"{device.type} {kind}", "threads": torch.get_num_threads()}


def build_run(asked: TrainConfig, origins: dict[str, str]) -> Run:
    """Collective: build a run from a config and the origin of each of its values; write nothing.

    Raises:
        UserError: something asked for cannot be had.
    """
    data = open_data(
        asked.data, directory=asked.data_dir, val_fraction=asked.val_fraction, seed=asked.seed, limit=asked.limit
    )
    processes = _start(asked)
    data, cache = cached(data, asked=asked.cache, workers=asked.workers, device=processes.device, group=processes.group)
    config, origins, point = _resolve(asked, origins, data, processes)
    data_notices = processes.on_main(partial(data_notes, config.data))  # may look at every file
    built, weights_notices = _build_model(config, data, None if point.stored else config.init_from)
    plan, plan_notices = plan_updates(config, data, built, processes, resumed=point.stored is not None)
    if config.profile:
        check_length(plan.total_updates)
    watchdog = Watchdog(processes.rank, processes.count, config.timeout)
    training = prepare(config, plan, data, built, processes, watchdog)
    return Run(
        config=config,
        origins=origins,
        data=data,
        cache=cache,
        built=built,
        resume_point=point,
        notices=(*data_notices, *weights_notices, *plan_notices),
        processes=processes,
        plan=plan,
        training=training,
        watchdog=watchdog,
        lock=FolderLock(point.folder),
    )


def _start(asked: TrainConfig) -> Processes:
    """Collective: set torch's options and form the process group."""
    set_torch_options(asked.threads, asked.exact)
    processes = start(
        device=asked.device,
        backend=asked.backend,
        precision=asked.precision,
        timeout=asked.timeout,
        strategy=asked.strategy,
    )
    _refuse_unsupported(asked, processes.strategy)
    return processes


def _refuse_unsupported(asked: TrainConfig, strategy: Strategy) -> None:
    if asked.exact and not strategy.exact_supported:
        raise UserError(f"--exact does not work with {strategy.name} yet", "start it with DDP")
    if asked.auto_micro_batch and not strategy.batch_size_search_supported:
        raise UserError(f"--auto-micro-batch does not work with {strategy.name} yet", "give --batch-size")


def _resolve(
    asked: TrainConfig, origins: dict[str, str], data: DataSet, processes: Processes
) -> tuple[ResolvedConfig, dict[str, str], ResumePoint]:
    """Collective: fill in all defaults and find the resume point; a resumed run keeps the values it had."""

    def resolved(config: TrainConfig) -> tuple[ResolvedConfig, dict[str, str]]:
        return resolve(config, origins, data.kind, len(data.train), processes.precision)

    def as_stored(stored: dict[str, Any]) -> ResolvedConfig:
        """Resolve for the epochs of the stored run: an extended run keeps the defaults that follow from them."""
        changed = {"epochs": stored["epochs"]}
        if asked.warmup_epochs is None:
            changed["warmup_epochs"] = stored["warmup_epochs"]
        return resolved(asked.model_copy(update=changed))[0]

    def same(stored: dict[str, Any]) -> bool:
        return not differences(as_stored(stored), stored)

    new, new_origins = resolved(asked)
    name = f"{Path(asked.data).name}_{new.model}".replace(":", "_").replace(",", "_")
    point = processes.on_main(lambda: find_resume_point(asked.output, asked.resume, name, same))
    if point.stored is None:
        return new, new_origins, point
    assert point.source
    return same_run(as_stored(point.stored), asked.epochs, point.stored, point.source), origins, point


def _build_model(config: ResolvedConfig, data: DataSet, initial: Path | None) -> tuple[BuiltModel, tuple[str, ...]]:
    """Build the model on the CPU, from the seed or from given weights; return notices too."""
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
