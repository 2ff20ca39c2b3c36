"""The sizes of the data of a run, which need not be on this machine."""

from dataclasses import dataclass

from torch import Tensor

from accel_train.config.defaults import kind_of_data
from accel_train.config.options import TrainConfig
from accel_train.config.plan_options import Planned
from accel_train.data.sources.base import DataSet, Ids, View
from accel_train.data.sources.names import is_hub_name
from accel_train.data.sources.synthetic import is_synthetic, parse_sizes
from accel_train.errors import UserError
from accel_train.run.training_data import open_training_data, refuse_unused

_PICTURE_PIXELS = 224
_VAL_SHARE = 0.2


@dataclass(frozen=True)
class Sizes:
    """A source without images."""

    count: int
    shape: tuple[int, int, int]
    """Channels, height and width."""
    class_count: int

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.class_count)))

    def __len__(self) -> int:
        return self.count

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("there are no images")


PUBLISHED_SIZES = {
    "digits": (359, (1, 8, 8), 10),
    "fashion-mnist": (10_000, (1, 28, 28), 10),
    "mnist": (10_000, (1, 28, 28), 10),
    "kmnist": (10_000, (1, 28, 28), 10),
    "cifar10": (10_000, (3, 32, 32), 10),
    "cifar100": (10_000, (3, 32, 32), 100),
    "svhn": (26_032, (3, 32, 32), 10),
}
"""Validation images, channels, height and width, and classes, by the value of ``--data``."""


def planned_data(asked: TrainConfig, planned: Planned, given: dict[str, str]) -> DataSet:
    """Return the data set of a run, without images if their number is known; nothing is downloaded.

    Raises:
        UserError: the data are not here, and their number is not given; or an option has no effect on them.
    """
    kind, images = kind_of_data(asked.data)
    if images is not None or is_synthetic(asked.data):
        refuse_unused(asked, given)
    if planned.images is not None and planned.classes is not None:
        val = round(planned.images * (asked.val_fraction or _VAL_SHARE))
        return _sized(asked, kind, planned.images, val, _shape(asked), planned.classes)
    if images is not None:
        return _sized(asked, kind, images, *PUBLISHED_SIZES[asked.data])
    if is_synthetic(asked.data):
        images, *_, classes = parse_sizes(asked.data)
        return _sized(asked, kind, images, max(classes, images // 5), _shape(asked), classes)
    if is_hub_name(asked.data):
        raise UserError(f"--data {asked.data} would be downloaded", "add --images and --classes: its numbers")
    try:
        return open_training_data(asked, given)
    except UserError as error:
        raise UserError(error.message, f"{error.hint}; or add --images and --classes: plan needs no data") from None


def _sized(asked: TrainConfig, kind: str, train: int, val: int, shape: tuple[int, int, int], classes: int) -> DataSet:
    limit = asked.limit or train
    grey = (0.5,) * shape[0]
    return DataSet(
        kind=kind,
        origin="",
        train=Sizes(min(train, limit), shape, classes),
        val=Sizes(min(val, limit), shape, classes),
        mean=grey,
        std=grey,
    )


def _shape(asked: TrainConfig) -> tuple[int, int, int]:
    if asked.data in PUBLISHED_SIZES:
        return PUBLISHED_SIZES[asked.data][1]
    if is_synthetic(asked.data):
        channels, height, width = parse_sizes(asked.data)[1:4]
        return channels, height, width
    return 3, _PICTURE_PIXELS, _PICTURE_PIXELS
