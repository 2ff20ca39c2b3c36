"""Builds one run from its config."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from accel_train.checkpoints.run_folder import DESCRIPTION, WEIGHTS, read_description
from accel_train.config.fields import Cache
from accel_train.config.options import FROM_RUN, ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan
from accel_train.config.resolve import resolve
from accel_train.config.strategies import STRATEGY_OPTIONS
from accel_train.data.cache import cached
from accel_train.data.contents import Contents, contents_of
from accel_train.data.open import data_notes, is_path, open_data
from accel_train.data.sources.base import DataSet
from accel_train.distributed.accelerator import Processes, start
from accel_train.distributed.strategies.base import Strategy
from accel_train.distributed.watchdog import Watchdog
from accel_train.errors import UserError
from accel_train.models.build import BuiltModel, build_model
from accel_train.models.pretrained import load_initial
from accel_train.rng import make_key, seed_libraries
from accel_train.run.identity import identity_of, refuse_other_identities
from accel_train.run.prepare import plan_updates, prepare
from accel_train.run.resume_point import (
    ResumePoint,
    decisive_options,
    differences,
    fill_from_run,
    find_resume_point,
    same_run,
)
from accel_train.run.same_data import has_same_data, refuse_changed, refuse_other_ranks
from accel_train.run.weights import initial_weights
from accel_train.training.activation_checkpointing import checkpoint_blocks
from accel_train.training.loop import Training
from accel_train.training.out_of_memory import SMALLER_MODEL, is_out_of_memory
from accel_train.training.profiler import check_length
from accel_train.training.torch_settings import keep_freed_memory, set_torch_options

FindResumePoint = Callable[[Path | None, str, str, Callable[[ResumePoint], bool]], ResumePoint]


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
    set_torch_options(asked.threads, asked.exact)  # first: threads decide the last bits of the data's mean
    data = _open_data(asked, given)
    contents = contents_of(data)
    processes = _start(asked)
    refuse_other_ranks(processes, contents, train=data.train, val=data.val)
    if asked.exact:
        refuse_other_identities(processes, identity_of(processes.device))
    config, origins, point = _resolve(asked, given, data, contents, processes, find)
    data, cache = cached(data, asked=asked.cache, workers=asked.workers, device=processes.device, group=processes.group)
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
        given=given,
        data=data,
        contents=contents,
        cache=cache,
        built=built,
        resume_point=point,
        notices=(*data.notes, *data_notices, *weights_notices, *plan_notices, *processes.strategy.notices()),
        processes=processes,
        plan=plan,
        training=training,
        watchdog=watchdog,
    )


def _open_data(asked: TrainConfig, given: dict[str, str]) -> DataSet:
    """Open the data set; an error about a name that the user has not given says whose it is."""
    try:
        return open_data(
            asked.data, directory=asked.data_dir, val_fraction=asked.val_fraction, seed=asked.seed, limit=asked.limit
        )
    except UserError as error:
        if given.get("data") != FROM_RUN:
            raise
        raise UserError(
            f"the data of --resume {asked.resume} cannot be opened: {error.message}",
            "if they are elsewhere now, add --data with their place",
        ) from None


def _start(asked: TrainConfig) -> Processes:
    """Collective: form the process group."""
    keep_freed_memory()  # not before the data are read: what that frees goes back to the system
    processes = start(
        device=asked.device,
        backend=asked.backend,
        precision=asked.precision,
        timeout=asked.timeout,
        strategy=asked.strategy,
        options={name: value for name in STRATEGY_OPTIONS if (value := getattr(asked, name)) is not None},
        common=decisive_options(asked),
    )
    _refuse_unsupported(asked, processes.strategy)
    return processes


def _refuse_unsupported(asked: TrainConfig, strategy: Strategy) -> None:
    if asked.exact and not strategy.exact_supported:
        raise UserError(f"--exact does not work with {strategy.name} yet", "add --strategy ddp or pipeline")
    if asked.compile and not strategy.compile_supported:
        raise UserError(f"--compile does not work with {strategy.name} yet", "leave it out")
    if asked.auto_micro_batch and not strategy.batch_size_search_supported:
        raise UserError(f"--auto-micro-batch does not work with {strategy.name} yet", "give --batch-size")


def _resolve(
    asked: TrainConfig,
    origins: dict[str, str],
    data: DataSet,
    contents: Contents,
    processes: Processes,
    find: FindResumePoint = find_resume_point,
) -> tuple[ResolvedConfig, dict[str, str], ResumePoint]:
    """Collective: fill in all defaults and find the resume point; a resumed run keeps the values it had.

    Raises:
        UserError: the run to resume was another one, or was trained on other data.
    """

    def resolved(config: TrainConfig) -> tuple[ResolvedConfig, dict[str, str]]:
        return resolve(config, origins, data.kind, len(data.train), processes.precision)

    def as_stored(stored: dict[str, Any]) -> ResolvedConfig:
        """Resolve for the epochs of the stored run: an extended run keeps the defaults that follow from them."""
        kept = ["epochs", *["warmup_epochs"] * (asked.warmup_epochs is None)]
        return resolved(asked.model_copy(update={name: stored[name] for name in kept}))[0]

    def is_this_run(point: ResumePoint) -> bool:
        assert point.stored
        shorter = asked.epochs is not None and asked.epochs < point.stored["epochs"]
        here = is_path(asked.data) and Path(asked.data).absolute() == Path(point.stored["data"]).absolute()
        compare_data = not here and not has_same_data(point, contents)
        return not (shorter or differences(as_stored(point.stored), point.stored, compare_data=compare_data))

    new, new_origins = resolved(asked)
    name = f"{Path(asked.data).absolute().name}_{new.model}".replace(":", "_").replace(",", "_")
    point = processes.on_main(lambda: find(asked.output, asked.resume, name, is_this_run))
    if point.stored is None or point.source is None:
        return new, new_origins, point
    stored, source, epochs = point.stored, point.source, asked.epochs
    compare_data = not ((is_path(asked.data) and is_path(stored["data"])) or has_same_data(point, contents))
    config = same_run(as_stored(stored), epochs, stored, source, given=origins, compare_data=compare_data)
    refuse_changed(point, contents, train=data.train, val=data.val)
    return config, origins, point


def _build_model(config: ResolvedConfig, data: DataSet, initial: Path | None) -> tuple[BuiltModel, tuple[str, ...]]:
    """Build the model on the CPU, from the seed or from given weights; return notices too."""
    channels, height, width = data.train.shape
    classes = tuple(data.train.classes)

    def build(outputs: int) -> BuiltModel:
        return build_model(
            config.model,
            classes=outputs,
            channels=channels,
            data_size=max(height, width),
            image_size=config.image_size,
        )

    seed_libraries(make_key(config.seed, "weights"))
    try:
        built = build(len(classes))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"--model {config.model} does not fit into memory: {error}", SMALLER_MODEL) from None
    if config.activation_checkpointing:
        checkpoint_blocks(built.module, config.model)
    if initial is None:
        return built, ()
    file, notes = initial_weights(initial)
    fresh = frozenset[str]()
    if _trained_on_other_classes(file.parent, classes):  # the head is what changes with the number of classes
        larger = build(len(classes) + 1).module.state_dict()
        fresh = frozenset(name for name, t in built.module.state_dict().items() if t.shape != larger[name].shape)
    of_run = file.name in WEIGHTS.values() and (file.parent / DESCRIPTION).exists()
    return built, (*notes, *load_initial(built.module, file, fresh, needs_checksum=of_run))


def _trained_on_other_classes(run: Path, classes: tuple[str, ...]) -> bool:
    """Return whether the folder of the weights describes a run with as many classes of other names or order."""
    if not (run / DESCRIPTION).is_file():
        return False
    trained = read_description(run).classes
    return trained != classes and len(trained) == len(classes)
