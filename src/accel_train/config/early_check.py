"""Checks the plan of a run as far as it is known before its images are counted."""

from collections.abc import Mapping

from accel_train.config.defaults import kind_of_data
from accel_train.config.options import TrainConfig
from accel_train.config.plan import images_per_update, make_plan
from accel_train.config.resolve import resolve

_MANY_IMAGES = 10**9
"""For data whose number of images is not known: no batch is too large for them."""


def check_plan(
    asked: TrainConfig, origins: Mapping[str, str], processes: int, stages: int, architecture: str | None = None
) -> None:
    """Check batches, epochs and learning rate of a run that names no run to resume.

    Raises:
        UserError: the run would be refused, however many images its data have.
    """
    kind, known = kind_of_data(asked.data)
    if known is None and asked.batch_size is None and asked.global_batch_size is None:
        return  # the batch size follows from the images
    images = min(known or _MANY_IMAGES, asked.limit or _MANY_IMAGES)
    replicas = processes // stages
    config, _ = resolve(asked, dict(origins), kind, images, "fp32", architecture=architecture, replicas=replicas)
    any_size = 1 if config.auto_micro_batch and config.global_batch_size else None
    if known or asked.epochs or not asked.starts_from_weights:
        make_plan(config, processes, images, any_size, stages=stages)
        return
    # Fine-tuning has more epochs the fewer images there are.
    size = any_size or config.batch_size
    images_per_update(config.global_batch_size, size, None if any_size else config.accumulate, replicas, stages)
