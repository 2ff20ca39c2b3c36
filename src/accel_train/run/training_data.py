"""Opens the images that a run is trained on."""

from pathlib import Path
from typing import Any

from accel_train.config.options import FROM_RUN, TrainConfig
from accel_train.data.open import open_data, refuse_unused_directory, refuse_unused_options
from accel_train.data.sources.base import DataSet, LabelsFrom
from accel_train.errors import UserError
from accel_train.recipes.read import refuse_missing_data


def open_training_data(asked: TrainConfig, given: dict[str, str], *, with_test: bool = False) -> DataSet:
    """Open the data set; an error about a name that the user has not given names the run that it comes from.

    Raises:
        UserError: it cannot be opened, or a recipe leaves it to the user, or --data-dir has no effect on it.
    """
    origin = given.get("data", "")
    refuse_missing_data(asked.data, origin)
    _refuse_unused_directory(asked, given)
    try:
        return open_data(
            asked.data,
            directory=asked.data_dir,
            val_fraction=asked.val_fraction,
            seed=asked.seed,
            limit=asked.limit,
            labels=LabelsFrom(asked.labels, asked.label_column),
            with_test=with_test,
        )
    except UserError as error:
        if origin != FROM_RUN:
            raise
        raise UserError(
            f"the data of --resume {asked.resume} cannot be opened: {error.message}",
            f"if they are elsewhere now, add --data{' and --labels' * bool(asked.labels)} with their place",
        ) from None


def place_of_data(config: dict[str, Any]) -> tuple[Path, Path]:
    """Return the paths of a folder of pictures and of its file of labels."""
    return Path(config["data"]).absolute(), Path(config["labels"] or "").absolute()


def refuse_unused(asked: TrainConfig, given: dict[str, str]) -> None:
    """Refuse options of the data that have no effect on them, as opening them does, without reading any.

    Raises:
        UserError: one is given; or there are no such data.
    """
    _refuse_unused_directory(asked, given)
    refuse_unused_options(asked.data, asked.val_fraction, LabelsFrom(asked.labels, asked.label_column))


def _refuse_unused_directory(asked: TrainConfig, given: dict[str, str]) -> None:
    """Refuse that which the user gives: a run to resume may have been given one for other data."""
    if given.get("data_dir", FROM_RUN) != FROM_RUN:
        refuse_unused_directory(asked.data, asked.data_dir)
