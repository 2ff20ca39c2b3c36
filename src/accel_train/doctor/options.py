"""Checks the options of a run as its start would: trackers, the run to resume, the model, the batches."""

import os
from collections.abc import Mapping

from accel_train.config.defaults import DATA_DEFAULTS, kind_of_data
from accel_train.config.doctor_options import DoctorConfig
from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve
from accel_train.config.trackers import check_installed
from accel_train.distributed.environment import world_size
from accel_train.distributed.resolve import choose_strategy
from accel_train.models.build import architecture_name
from accel_train.run.resume_point import fill_from_run

_MANY_IMAGES = 10**9
"""For data whose number of images is not known: no batch is too large for them."""


def check_run(config: DoctorConfig, origins: Mapping[str, str]) -> None:
    """Check what a run checks once it is started; no data are read, and no weights.

    Raises:
        UserError: a run with these options would be refused.
    """
    given = {name: origin for name, origin in origins.items() if name in TrainConfig.model_fields}
    asked = TrainConfig.model_construct(**{name: getattr(config, name) for name in TrainConfig.model_fields})
    asked, given = fill_from_run(asked, given)
    check_installed(asked.tracker)
    kind, images = kind_of_data(asked.data)
    model = asked.model or DATA_DEFAULTS[kind].model
    architecture = architecture_name(model) if asked.model else None
    if images is not None or asked.batch_size is not None:
        images = min(images or _MANY_IMAGES, asked.limit or _MANY_IMAGES)
        _check_batches(asked, given, kind, images, architecture or model)


def _check_batches(asked: TrainConfig, given: dict[str, str], kind: str, images: int, architecture: str) -> None:
    """Check that the processes can share the batches, if they can form the strategy: the start checks that."""
    processes = world_size()
    _, options = choose_strategy(asked.strategy, asked.strategy_options, processes, os.environ)
    stages = options.get("pipeline_stages", 1)
    if processes % stages:
        return
    config, _ = resolve(asked, given, kind, images, "fp32", architecture=architecture)
    any_size = 1 if config.auto_micro_batch and config.global_batch_size else None
    make_plan(config, processes, images, any_size, stages=stages)
