"""Opens a data set by its name: the one place that knows all sources."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_train.config.import_string import import_object, is_function_name, takes
from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.data.packing.manifest import is_packed
from accel_train.data.sources.base import DataSet, LabelsFrom, Listing, Request, Source, spread
from accel_train.data.sources.builtin import open_digits, open_torchvision
from accel_train.data.sources.fashion_mnist import open_fashion_mnist
from accel_train.data.sources.names import is_hub_name, is_saved
from accel_train.data.sources.synthetic import is_synthetic, open_synthetic
from accel_train.data.sources.user import open_function
from accel_train.errors import UserError
from accel_train.loggers.text import quoted

if TYPE_CHECKING:
    from accel_train.data.sources.encoded_images import TableSource
    from accel_train.data.sources.picture_files import FolderSource

Opener = Callable[[Request], DataSet]


def _imported_on_use(name: str) -> Callable[..., Any]:
    """Return a function that is imported when it is called: in-memory data needs no decoders, which take 20 ms."""

    def call(*arguments: Any, **options: Any) -> Any:
        return import_object(name)(*arguments, **options)

    return call


_open_folder = _imported_on_use("accel_train.data.sources.folder:open_folder")
_open_folder_for_evaluation = _imported_on_use("accel_train.data.sources.folder:open_folder_for_evaluation")
_open_hugging_face = _imported_on_use("accel_train.data.sources.hugging_face:open_hugging_face")
_list_pictures = _imported_on_use("accel_train.data.sources.folder:list_pictures")
_list_hugging_face = _imported_on_use("accel_train.data.sources.hugging_face:list_hugging_face")
_open_hugging_face_for_evaluation = _imported_on_use(
    "accel_train.data.sources.hugging_face:open_hugging_face_for_evaluation"
)
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
    (is_hub_name, _open_hugging_face),
    (lambda name: is_folder(name) and is_saved(Path(name)), _open_hugging_face),
    (lambda name: is_folder(name) and is_packed(Path(name)), _open_packed),
    (is_folder, _open_folder),
    (is_function_name, open_function),
)
"""Sources recognized by the form of the name; the first match is opened."""
_TAKE_VAL_FRACTION: tuple[Opener, ...] = (_open_packed, _open_folder, _open_hugging_face)
_TAKE_DIRECTORY: tuple[Opener, ...] = tuple(opener for opener in PUBLISHED.values() if opener is not open_digits)
_USUAL_LABELS = LabelsFrom()


def open_data(
    name: str,
    *,
    directory: Path | None,
    val_fraction: float | None,
    seed: int,
    limit: int | None,
    labels: LabelsFrom = _USUAL_LABELS,
    with_test: bool = False,
    download: bool = True,
) -> DataSet:
    """Open a data set, downloading it if needed and allowed; several processes may call this at once.

    `limit` is that of training and validation images; the test images are opened only if they are wanted.

    Call it before the process group exists, so that a long download cannot run into its timeout.

    Raises:
        UserError: the data set does not exist, cannot be downloaded or read, or its classes are inconsistent.
    """
    refuse_unused_options(name, val_fraction, labels)
    data = _find_opener(name)(Request(name, directory, val_fraction, seed, labels, with_test, download))
    return replace(data, train=spread(data.train, limit), val=spread(data.val, limit))


def refuse_unused_options(name: str, val_fraction: float | None, labels: LabelsFrom) -> None:
    """Refuse options that have no effect on a data set.

    Raises:
        UserError: one is given; or there is no such data set.
    """
    opener = _find_opener(name)
    if val_fraction is not None and opener not in _TAKE_VAL_FRACTION:
        raise UserError(f"--val-fraction has no effect on {name}, which has its own validation images", "leave it out")
    if labels.file and opener is not _open_folder:
        raise UserError(f"--labels has no effect on {name}, which has its own labels", "leave it out")
    if labels.column and not (labels.file or opener is _open_hugging_face):
        raise UserError(f"--label-column {labels.column} has no effect without a file of --labels", "leave it out")


def refuse_unused_directory(name: str, directory: Path | None) -> None:
    """Refuse a folder of --data-dir that a data set does not use.

    Raises:
        UserError: it is neither downloaded there nor a function that takes `data_dir`; or there is no such data set.
    """
    if directory is None or (opener := _find_opener(name)) in _TAKE_DIRECTORY:
        return
    refused = f"--data-dir {quoted(directory)} has no effect on {quoted(name)}"
    if opener is not open_function:
        kept = f"leave it out, or give a folder of pictures as --data {quoted(directory)}"
        if is_hub_name(name):
            kept = "leave it out, and set HF_HOME to the folder of downloads of the library datasets"
        raise UserError(f"{refused}, which is not downloaded to it", kept)
    if not takes(name, "--data", "data_dir"):
        raise UserError(f"{refused}, which does not take it", "leave it out, or add the parameter data_dir")


def list_encoded(name: str, labels: LabelsFrom) -> "Listing[FolderSource] | Listing[TableSource]":
    """List the encoded pictures of all splits of a folder, or of a data set of the library `datasets`.

    Raises:
        UserError: they cannot be listed.
    """
    listing: Listing[FolderSource] | Listing[TableSource]
    if not is_hub_name(name) and not is_folder(name):
        raise UserError(f"there is no folder {name}", "give a folder of pictures, packed or not, or hf:NAME")
    if not is_hub_name(name) and not is_saved(Path(name)):
        listing = _list_pictures(Path(name), labels, with_test=True)
        return listing
    if labels.file:
        raise UserError(f"--labels has no effect on {name}, which has its own labels", "leave it out")
    listing = _list_hugging_face(name, labels.column)
    return listing


def open_for_evaluation(
    root: Path,
    classes: tuple[str, ...],
    owner: str,
    *,
    split: str = "val",
    labels: LabelsFrom = _USUAL_LABELS,
) -> Listing[Source]:
    """Open the pictures of a folder's split, val or test, packed or not; as val all if it has no splits.

    `owner` defines the classes.

    Raises:
        UserError: the folder has no such split, a class that the owner lacks, or no pictures.
    """
    if labels.file and (is_packed(root) or is_saved(root)):
        raise UserError(f"--labels has no effect on {root}, which has its own labels", "leave it out")
    listing: Listing[Source]
    if is_packed(root):
        listing = _open_packed_for_evaluation(root, classes, owner, split)
    elif is_saved(root):
        listing = _open_hugging_face_for_evaluation(root, classes, owner, split, labels.column)
    else:
        listing = _open_folder_for_evaluation(root, classes, owner, split, labels)
    return listing


def is_path(name: str) -> bool:
    """Return whether a data set is named by its path, which does not matter if the content is the same."""
    return not (name in PUBLISHED or is_synthetic(name) or is_hub_name(name) or is_function_name(name))


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
        else f"choose {', '.join(PUBLISHED)}, synthetic, a folder, hf:NAME or my.module:function"
    )
    raise UserError(
        f"--data {quoted(name)}: neither a known data set nor a folder",
        did_you_mean(suggestions(name, [*PUBLISHED, "synthetic"]), otherwise),
    )
