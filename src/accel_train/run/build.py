"""Builds one run from its config."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from accel_train.config.fields import Cache
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan
from accel_train.config.resolve import resolve
from accel_train.config.trackers import check_trackers
from accel_train.data.cache import cached
from accel_train.data.contents import Contents
from accel_train.data.open import data_notes, is_path
from accel_train.data.sources.base import DataSet
from accel_train.distributed.accelerator import Processes, start
from accel_train.distributed.strategies.base import Strategy
from accel_train.distributed.watchdog import Watchdog
from accel_train.errors import UserError
from accel_train.models.build import BuiltModel
from accel_train.run.bad_images import check_images
from accel_train.run.fine_tuning import fine_tuning
from accel_train.run.identity import identity_of, refuse_other_identities
from accel_train.run.images import refuse_augmentation
from accel_train.run.initial_model import Start, find_start, fit_to_images, initial_model
from accel_train.run.prepare import plan_updates, prepare
from accel_train.run.resume_point import (
    ResumePoint,
    decisive_options,
    differences,
    fill_from_run,
    find_resume_point,
    same_run,
)
from accel_train.run.same_data import has_same_data, refuse_changed
from accel_train.run.training_data import open_training_data, place_of_data
from accel_train.training.loop import Training
from accel_train.training.profiler import check_length
from accel_train.training.torch_settings import keep_freed_memory, set_torch_options

FindResumePoint = Callable[[Path | None, str, str, Callable[[ResumePoint], bool]], ResumePoint]
_RANDOM = Start()


@dataclass(frozen=True)
class Run:
    """One run, ready to start, and what it was built from."""

    config: ResolvedConfig
    origins: dict[str, str]
    given: dict[str, str]
    """Origins of the values that the user, a file or the run that --resume names has given."""
    data: DataSet
    contents: Contents
    """What the data contain."""
    left_out: Mapping[str, str]
    """Reasons by name of the pictures that cannot be read and are left out."""
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

    @property
    def plain_model(self) -> nn.Module:
        """The model without wrappers."""
        return self.processes.strategy.plain_model(self.processes.accelerator, self.training.updater.model)

    @property
    def identity(self) -> dict[str, str]:
        """What decides the last bits of a sum, besides the config."""
        return identity_of(self.processes.device)


def build_run(asked: TrainConfig, origins: dict[str, str], find: FindResumePoint = find_resume_point) -> Run:
    """Collective: build a run from a config and the origin of each of its values.

    Writes nothing, except that `find` may lock the run folder.

    Raises:
        UserError: something asked for cannot be had.
    """
    asked, given = fill_from_run(asked, origins)
    check_trackers(asked.tracker, project_of=given.get("tracker_project"))
    set_torch_options(asked.threads, asked.exact)  # first: threads decide the last bits of the data's mean
    data = open_training_data(asked, given)
    start_from = find_start(asked, data)
    processes = start_processes(asked)
    checked = check_images(data, asked, processes)
    data, contents = checked.data, checked.contents
    config, origins, point = _resolve(asked, given, data, contents, processes, find, start_from)
    refuse_augmentation(config, data)
    data, cache = cached(data, asked=asked.cache, workers=asked.workers, device=processes.device, group=processes.group)
    data_notices = processes.on_main(partial(data_notes, config.data))  # may look at every file
    data, built, weights_notices = initial_model(config, data, start_from, point.description)
    watchdog = Watchdog(processes.rank, processes.count, config.timeout)
    plan, training, notices = _training(config, data, built, processes, watchdog, resumed=point.stored is not None)
    return Run(
        config=config,
        origins=origins,
        given=given,
        data=data,
        contents=contents,
        left_out=checked.left_out,
        cache=cache,
        built=built,
        resume_point=point,
        notices=(*data.notes, *data_notices, *weights_notices, *notices),
        processes=processes,
        plan=plan,
        training=training,
        watchdog=watchdog,
    )


def _training(
    config: ResolvedConfig, data: DataSet, built: BuiltModel, processes: Processes, watchdog: Watchdog, *, resumed: bool
) -> tuple[Plan, Training, tuple[str, ...]]:
    """Collective: plan the updates and prepare the loop; return notices too."""
    if not config.starts_from_weights:
        fit_to_images(config, data, built)  # also if the run resumes: it may have stopped before its first checkpoint
    plan, plan_notices = plan_updates(config, data, built, processes, resumed=resumed)
    if config.profile:
        check_length(plan.total_updates)
    tuning = fine_tuning(config, built, len(data.train.classes))
    training = prepare(config, plan, data, built, processes, watchdog, tuning)
    return plan, training, (*tuning.notices, *plan_notices, *processes.strategy.notices())


def start_processes(asked: TrainConfig) -> Processes:
    """Collective: form the process group."""
    keep_freed_memory()  # not before the data are read: what that frees goes back to the system
    processes = start(
        device=asked.device,
        backend=asked.backend,
        precision=asked.precision,
        timeout=asked.timeout,
        strategy=asked.strategy,
        options=asked.strategy_options,
        common=decisive_options(asked),
    )
    refuse_unsupported(asked, processes.strategy)
    if asked.exact:
        refuse_other_identities(processes, identity_of(processes.device))
    return processes


def refuse_unsupported(asked: TrainConfig, strategy: Strategy) -> None:
    """Check that a strategy supports all options.

    Raises:
        UserError: it does not.
    """
    if asked.exact and not strategy.exact_supported:
        raise UserError(f"--exact does not work with {strategy.name} yet", "add --strategy ddp or pipeline")
    if asked.compile and not strategy.compile_supported:
        raise UserError(f"--compile does not work with {strategy.name} yet", "leave it out")
    if asked.unfreeze_at and not strategy.unfreezing_supported:
        raise UserError(f"--unfreeze-at does not work with {strategy.name} yet", "start it with DDP or FSDP2")
    if asked.auto_micro_batch and not strategy.batch_size_search_supported:
        raise UserError(f"--auto-micro-batch does not work with {strategy.name} yet", "give --batch-size")


def _resolver(data: DataSet, processes: Processes) -> Callable[..., tuple[ResolvedConfig, dict[str, str]]]:
    """Return :func:`resolve` for these data and processes."""
    replicas = processes.count // processes.strategy.stages
    return partial(
        resolve, data_kind=data.kind, train_images=len(data.train), precision=processes.precision, replicas=replicas
    )


def _resolve(
    asked: TrainConfig,
    origins: dict[str, str],
    data: DataSet,
    contents: Contents,
    processes: Processes,
    find: FindResumePoint = find_resume_point,
    start: Start = _RANDOM,
) -> tuple[ResolvedConfig, dict[str, str], ResumePoint]:
    """Collective: fill in all defaults and find the resume point; a resumed run keeps the values it had.

    Raises:
        UserError: the run to resume was another one, or was trained on other data.
    """
    resolved = _resolver(data, processes)

    def as_stored(point: ResumePoint) -> ResolvedConfig:
        """Resolve for the epochs of the stored run: an extended run keeps the defaults that follow from them."""
        assert point.stored
        kept = ["epochs", *(["warmup_epochs"] if asked.warmup_epochs is None else [])]
        like = asked.model_copy(update={name: point.stored[name] for name in kept})
        fitted = (point.stored["fit"], point.stored["eval_crop"]) if asked.starts_from_weights else None
        return resolved(like, origins, architecture=point.model, fit_of_weights=fitted)[0]

    def is_this_run(point: ResumePoint) -> bool:
        assert point.stored
        shorter = asked.epochs is not None and asked.epochs < point.stored["epochs"]
        here = is_path(asked.data) and place_of_data(asked.model_dump()) == place_of_data(point.stored)
        compare_data = not here and not has_same_data(point, contents)
        return not (shorter or differences(as_stored(point), point.stored, compare_data=compare_data))

    new, new_origins = resolved(asked, origins, architecture=start.architecture, fit_of_weights=start.fit)
    name = re.sub("[:,/]", "_", f"{Path(asked.data).absolute().name}_{new.model}")
    point = processes.on_main(lambda: find(asked.output, asked.resume, name, is_this_run))
    if point.stored is None or point.source is None:
        return new, new_origins, point
    compare = not ((is_path(asked.data) and is_path(point.stored["data"])) or has_same_data(point, contents))
    config = same_run(as_stored(point), asked.epochs, point.stored, point.source, given=origins, compare_data=compare)
    refuse_changed(point, contents, train=data.train, val=data.val)
    return config, origins, point
