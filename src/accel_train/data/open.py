"""Opens a data set by its name: the one place that knows all sources."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_train.config.import_string import import_object, is_function_name
from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.data.packing.manifest import is_packed
from accel_train.data.sources.base import DataSet, Request, Source, spread
from accel_train.data.sources.builtin import open_digits, open_torchvision
from accel_train.data.sources.fashion_mnist import open_fashion_mnist
from accel_train.data.sources.synthetic import is_synthetic, open_synthetic
from accel_train.data.sources.user import open_function
from accel_train.errors import UserError
from accel_train.loggers.text import quoted

if TYPE_CHECKING:
    from accel_train.data.sources.folder import Listing

Opener = Callable[[Request], DataSet]


def _imported_on_use(name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: in-memory data needs no decoders, which take 20 ms."""

    def call(*arguments: Any) -> Any:
        return import_object(name)(*arguments)

    return call


_open_folder = _imported_on_use("accel_train.data.sources.folder:open_folder")
_open_folder_for_evaluation = _imported_on_use("accel_train.data.sources.folder:open_folder_for_evaluation")
_open_packed = _imported_on_use("accel_train.data.packing.source:open_packed")
_open_packed_for_evaluation = _imported_on_use("accel_train.data.packing.source:open_packed_for_evaluation")
_packed_notes = _imported_on_use("accel_train.data.packing.source:packed_notes")


def is_folder(name: str) -> bool:
    """Return whether a data set is a folder here.

    Raises:
        UserError: its path cannot be followed.
    """
    try:
        return Path(name).is_dir()
    except OSError as error:  # no permission above it, or no path at all
        raise UserError(
            f"--data {quoted(name)}: {error.strerror}", "give the path of a folder that you may read"
        ) from None


PUBLISHED: dict[str, Opener] = {
    "digits": open_digits,
    "fashion-mnist": open_fashion_mnist,
    "mnist": partial(open_torchvision, "MNIST"),
    "kmnist": partial(open_torchvision, "KMNIST"),
    "cifar10": partial(open_torchvision, "CIFAR10"),
    "cifar100": partial(open_torchvision, "CIFAR100"),
    "svhn": partial(open_torchvision, "SVHN"),
}
"""Sources known by name."""
_BY_FORM: tuple[tuple[Callable[[str], bool], Opener], ...] = (
    (is_synthetic, open_synthetic),
    (lambda name: is_folder(name) and is_packed(Path(name)), _open_packed),
    (is_folder, _open_folder),
    (is_function_name, open_function),
)
"""Sources recognized by the form of the name; the first match is opened."""
_TAKE_VAL_FRACTION: tuple[Opener, ...] = (_open_packed, _open_folder)


def open_data(
    name: str,
    *,
    directory: Path | None,
    val_fraction: float | None,
    seed: int,
    limit: int | None,
    download: bool = True,
) -> DataSet:
    """Open a data set, downloading it if needed and allowed; several processes may call this at once.

    Call it before the process group exists, so that a long download cannot run into its timeout.

    Raises:
        UserError: the data set does not exist, cannot be downloaded or read, or its classes are inconsistent.
    """
    opener = _find_opener(name)
    if val_fraction is not None and opener not in _TAKE_VAL_FRACTION:
        raise UserError(f"--val-fraction has no effect on {name}, which has its own validation images", "leave it out")
    data = opener(Request(name, directory, val_fraction, seed, download))
    return replace(data, train=spread(data.train, limit), val=spread(data.val, limit))


def open_for_evaluation(root: Path, classes: tuple[str, ...], owner: str) -> "Listing[Source]":
    """Open the validation pictures of a folder, packed or not, as val; all if it has none. `owner` defines the classes.

    Raises:
        UserError: the folder has a class that the owner lacks, or no pictures.
    """
    opener = _open_packed_for_evaluation if is_packed(root) else _open_folder_for_evaluation
    listing: Listing[Source] = opener(root, classes, owner)
    return listing


def is_path(name: str) -> bool:
    """Return whether a data set is named by its path, which does not matter if the content is the same."""
    return name not in PUBLISHED and not is_synthetic(name) and not is_function_name(name)


def data_notes(name: str) -> tuple[str, ...]:
    """Return notes for the user about a data set, one sentence each."""
    notes: tuple[str, ...] = _packed_notes(Path(name)) if is_packed(Path(name)) else ()
    return notes


def _find_opener(name: str) -> Opener:
    if name in PUBLISHED:
        return PUBLISHED[name]
    for matches, opener in _BY_FORM:
        if matches(name):
            return opener
    otherwise = (
        f"give a folder that exists, from {Path.cwd()}"
        if os.sep in name
        else f"choose {', '.join(PUBLISHED)}, synthetic, a folder or my.module:function"
    )
    raise UserError(
        f"--data {quoted(name)}: neither a known data set nor a folder",
        did_you_mean(suggestions(name, [*PUBLISHED, "synthetic"]), otherwise),
    )
