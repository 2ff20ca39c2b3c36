"""Checks the options of a run as its start would: trackers, the run to resume, model, weights, batches, data."""

import os
from collections.abc import Mapping
from pathlib import Path

from accel_train.config.defaults import DATA_DEFAULTS, kind_of_data
from accel_train.config.doctor_options import DoctorConfig
from accel_train.config.early_check import check_plan
from accel_train.config.import_string import check_function, is_function_name
from accel_train.config.options import TrainConfig
from accel_train.config.trackers import check_environment, check_installed
from accel_train.data.open import is_path
from accel_train.distributed.environment import world_size
from accel_train.distributed.resolve import choose_strategy
from accel_train.errors import UserError
from accel_train.loggers.text import quoted
from accel_train.models.build import architecture_name
from accel_train.recipes.read import refuse_missing_data
from accel_train.run.resume_point import UNNAMED, fill_from_run
from accel_train.run.training_data import open_training_data, refuse_unused
from accel_train.run.weights import check_weights


def check_run(config: DoctorConfig, origins: Mapping[str, str]) -> None:
    """Check what a run checks once it is started; no data are read, and weights only looked for.

    Raises:
        UserError: a run with these options would be refused.
    """
    asked, given = _asked(config, origins)
    check_installed(asked.tracker)
    check_environment(asked.tracker)
    model = asked.model or DATA_DEFAULTS[kind_of_data(asked.data)[0]].model
    architecture = architecture_name(model) if asked.model else None
    if is_function_name(model):
        check_function(model, "--model")
    if asked.starts_from_weights and asked.resume in UNNAMED:  # a run to resume has its own
        check_weights(model, asked.weights)
    _check_batches(asked, given, architecture or model)


def check_data(config: DoctorConfig, origins: Mapping[str, str]) -> None:
    """Check that the data are on this host; none are read, but a user's function for them is called.

    Raises:
        UserError: they are not, the function fails, or an option has no effect on them.
    """
    asked, given = _asked(config, origins)
    if is_function_name(asked.data):
        open_training_data(asked, given)
    elif is_path(asked.data):
        refuse_missing_data(asked.data, given.get("data", ""))
        _check_path("--data", Path(asked.data))
    if asked.labels:
        _check_path("--labels", Path(asked.labels))
    refuse_unused(asked, given)


def _asked(config: DoctorConfig, origins: Mapping[str, str]) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config of the run and the origins of its values, with those of the run that --resume names."""
    given = {name: origin for name, origin in origins.items() if name in TrainConfig.model_fields}
    asked = TrainConfig.model_construct(**{name: getattr(config, name) for name in TrainConfig.model_fields})
    return fill_from_run(asked, given)


def _check_path(option: str, path: Path) -> None:
    fix = "mount or copy the data there, the same on all hosts"
    try:
        path.stat()
        is_empty = path.is_dir() and not any(path.iterdir())
    except FileNotFoundError:
        raise UserError(f"{option} {quoted(path)} does not exist here", fix) from None
    except OSError as error:
        raise UserError(f"{option} {quoted(path)}: {error.strerror}", "let it be readable here") from None
    if is_empty:
        raise UserError(f"{option} {quoted(path)} is an empty folder here", fix)


def _check_batches(asked: TrainConfig, given: dict[str, str], architecture: str) -> None:
    """Check that the processes can share the batches, if they can form the strategy: the start checks that."""
    processes = world_size()
    _, options = choose_strategy(asked.strategy, asked.strategy_options, processes, os.environ)
    stages = options.get("pipeline_stages", 1)
    if processes % stages == 0:
        check_plan(asked, given, processes, stages, architecture)
