"""Data sets of the library `datasets`: from the Hugging Face Hub, or a folder that its `save_to_disk` has written."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accel_train.data.sources.base import DataSet, Listing, Request
from accel_train.data.sources.encoded_images import TableSource, sizes_of
from accel_train.data.sources.folder import picture_data
from accel_train.data.sources.label_file import ONE_LABEL
from accel_train.data.sources.listing import some
from accel_train.data.sources.names import HUB, is_hub_name, is_saved, labels_of, split_name
from accel_train.data.sources.saved import load_saved
from accel_train.data.sources.split import refuse_val_fraction, split_ids
from accel_train.errors import UserError, shown

_LEAST_VERSION = 4
"""Older versions run Python code of data sets."""
_IMAGES, _LABELS = ("image", "img"), ("label", "labels")
"""Usual names of columns."""


def open_hugging_face(request: Request) -> DataSet:
    """Open a data set; one of the Hub is downloaded to the cache of the library, by one process at a time.

    Raises:
        UserError: it cannot be had, or its splits, images or labels cannot be used.
    """
    listing = list_hugging_face(request.name, request.labels.column, with_test=request.with_test)
    origin = f"from {request.name}"
    if "all" in listing.splits:
        images = listing.splits["all"]
        ids = split_ids(request, request.name, images.classes, images.labels, images.path_hashes)
        train, val = map(images.only, ids)
        return picture_data(origin, train, val, listing)
    refuse_val_fraction(request, request.name)
    return picture_data(origin, listing.splits["train"], listing.splits["val"], listing)


def list_hugging_face(name: str, label_column: str | None, *, with_test: bool = True) -> Listing[TableSource]:
    """List the images of train and val, or all; those of test if they are wanted, do not validate and have labels.

    Raises:
        UserError: as :func:`open_hugging_face`.
    """
    tables = _open_tables(name, label_column)
    if "all" in tables.splits:
        return Listing({"all": tables.source("all")}, notes=tables.notes)
    train, owner, notes = tables.source("train"), f"the split train of {name}", tables.notes
    splits = {"train": train, "val": tables.source("val", train.classes, owner)}
    if with_test and "test" in tables.splits and tables.splits["test"] is not tables.splits["val"]:
        try:
            splits["test"] = tables.source("test", train.classes, owner)
        except UserError as error:  # its labels may be secret
            notes = (*notes, f"the split test of {name} is not used: {error.message}")
    return Listing(splits, notes=notes)


def open_hugging_face_for_evaluation(
    root: Path, classes: tuple[str, ...], owner: str, split: str, label_column: str | None
) -> Listing[TableSource]:
    """Open a split of a saved data set, val or test; as val all if it has no splits. The owner defines the classes.

    Raises:
        UserError: there is no such split, or it has a class that the owner lacks.
    """
    tables = _open_tables(str(root), label_column)
    if split == "val" and "all" in tables.splits:
        split = "all"
    if split not in tables.splits:
        raise UserError(f"{root} has no split {split}", "give another data set, or leave out --split")
    return Listing({split: tables.source(split, classes, owner)}, notes=tables.notes)


@dataclass(frozen=True)
class _Tables:
    """The splits of a data set, and their columns of images and labels."""

    name: str
    splits: Mapping[str, Any]
    """Tables by train, val and perhaps test; or all."""
    notes: tuple[str, ...]
    images: str
    labels: str

    def source(self, split: str, classes: tuple[str, ...] | None = None, owner: str = "") -> TableSource:
        """Return a split, with the labels of the owner's classes; without an owner it has its own."""
        import datasets

        table, place = self.splits[split], f"{self.name} ({split})" if split != "all" else self.name
        names, codes = _names_and_codes(table, self.labels, place)
        if classes is None:
            classes, owner = names, place
            if len(classes) < 2:
                raise UserError(f"{place} holds only the class {classes[0]}", "give images of two classes or more")
        present = np.unique(codes)
        label_of = np.zeros(len(names), np.int64)
        label_of[present] = labels_of([names[code] for code in present], classes, place, owner)
        images = table.select_columns(self.images).cast_column(self.images, datasets.Image(decode=False))
        return TableSource(place, classes, images, np.arange(len(codes)), label_of[codes], sizes_of(images))


def _names_and_codes(table: Any, column: str, place: str) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the names of classes, and the index of that of each row.

    Raises:
        UserError: a row has no label, or the table has no rows.
    """
    values = table.data.column(column).to_pylist()
    if not values:
        raise UserError(f"{place} has no images", "give a data set that has some")
    names = getattr(table.features[column], "names", None)
    known = range(len(names)) if names else set(values) - {None}
    if wrong := [row for row, value in enumerate(values) if value not in known]:
        raise UserError(
            f"row {wrong[0]} of {place} has the label {values[wrong[0]]}", "give each image a label, or remove it"
        )
    if names:
        return tuple(names), np.array(values, np.int64)
    texts = list(map(str, values))
    index = {name: code for code, name in enumerate(sorted(set(texts)))}
    return tuple(index), np.array([index[text] for text in texts], np.int64)


def _open_tables(name: str, label_column: str | None) -> _Tables:
    found = _load(name)
    notes = []
    if not isinstance(found, dict):
        splits = {"all": found}
    else:
        splits, others = _by_kind(name, found)
        if others:
            notes.append(f"splits of {name} that are not used: {some(others)}")
        if "val" not in splits and "test" in splits:
            splits["val"] = splits["test"]
            notes.append(f"the split test of {name} is used for validation: it has no validation split")
        if "val" not in splits:
            splits = {"all": splits["train"]}
    features = next(iter(splits.values())).features
    images, labels = _image_column(name, features), _label_column(name, features, label_column)
    return _Tables(name, splits, tuple(notes), images, labels)


def _by_kind(name: str, found: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the tables by train, val and test, and the names of other splits."""
    kinds = {split: split_name(split) for split in found}
    splits: dict[str, Any] = {}
    others = []
    for split, kind in kinds.items():
        if kind is None or kind.rest or kind.kind in splits:
            others.append(split)
        else:
            splits[kind.kind] = found[split]
    if "train" not in splits:
        raise UserError(f"{name} has the splits {some(list(found))}, but no train", "give another data set")
    return splits, others


def _load(name: str) -> Any:
    """Return a table, or a dict of tables by split."""
    try:
        import datasets
    except ImportError:
        datasets = None
    if datasets is None or int(datasets.__version__.partition(".")[0]) < _LEAST_VERSION:
        raise UserError(
            f"--data {name} needs the library datasets, version {_LEAST_VERSION} or newer",
            "run: pip install 'accel_train[datasets]'",
        )
    import huggingface_hub

    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    if is_hub_name(name) and is_saved(Path(path := name.removeprefix(HUB))):
        raise UserError(f"--data {name}: {path} is a folder of save_to_disk", f"give it as --data {path}")
    if not is_hub_name(name):
        return load_saved(Path(name))
    try:
        path, _, configuration = name.removeprefix(HUB).partition(":")
        if not path.strip():
            raise ValueError("the name of the data set is missing")
        huggingface_hub.logging.set_verbosity_error()  # it reports each of its tries
        return datasets.load_dataset(path, configuration or None)
    except Exception as error:  # of the network, the cache, the library or its parsers
        raise UserError(
            f"--data {name}: {type(error).__name__}: {' '.join(str(error).split())}",
            "give hf:NAME of a data set of the Hub; without a network, one that is in the library's cache (HF_HOME)",
        ) from None


def _image_column(name: str, features: Mapping[str, Any]) -> str:
    found = [column for column, kind in features.items() if type(kind).__name__ == "Image"]
    usual = [column for column in _IMAGES if column in found]
    if len(found) != 1 and not usual:
        what = f"the columns of images {some(found)}" if found else f"no column of images: {some(list(features))}"
        raise UserError(f"{name} has {what}", "give a data set with the one column image")
    return (usual or found)[0]


def _label_column(name: str, features: Mapping[str, Any], asked: str | None) -> str:
    found = [column for column, kind in features.items() if type(kind).__name__ == "ClassLabel"]
    usual = [column for column in _LABELS if column in features]
    column = asked or (usual or found or [""])[0]
    if column not in features or (not asked and not usual and len(found) > 1):
        reason = f"--label-column {asked}: " * bool(asked)
        raise UserError(
            f"{reason}{name} has the columns {some(list(features))}",
            "give --label-column, with the name of one of them",
        )
    kind = features[column]
    if type(kind).__name__ not in ("ClassLabel", "Value"):
        raise UserError(f"the column {column} of {name} has several labels for each image", ONE_LABEL)
    if type(kind).__name__ == "Value" and not kind.dtype.startswith(("string", "large_string", "int", "uint", "bool")):
        raise UserError(
            f"the column {column} of {name} is {shown(kind.dtype)}", "give a column of names or whole numbers"
        )
    return column
