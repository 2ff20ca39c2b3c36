"""Folders of pictures as data sets: finds their splits and classes, or splits them by the seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from accel_train.data.sources.base import DataSet, Request, Source
from accel_train.data.sources.listing import FolderLister, Pictures
from accel_train.data.sources.names import labels_of
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.split import refuse_val_fraction, split_ids
from accel_train.errors import UserError
from accel_train.loggers.text import quoted

Source_co = TypeVar("Source_co", bound=Source, covariant=True)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Listing(Generic[Source_co]):
    """The pictures of a folder, and what is ignored in it."""

    splits: Mapping[str, Source_co]
    """train and val, or all; in evaluation val or all."""
    ignored_files: int = 0
    """Files that are not pictures."""
    notes: tuple[str, ...] = ()
    """What else the user should know of the layout, one sentence each."""


def open_folder(request: Request) -> DataSet:
    listing = list_folder(Path(request.name))
    if "all" in listing.splits:
        pictures = listing.splits["all"]
        ids = split_ids(request, pictures.root, pictures.classes, pictures.labels, pictures.path_hashes)
        train, val = map(pictures.only, ids)
    else:
        refuse_val_fraction(request)
        train, val = listing.splits["train"], listing.splits["val"]
    return folder_data(request, train, val, listing.ignored_files, listing.notes)


def folder_data(
    request: Request, train: Source, val: Source, ignored_files: int = 0, notes: tuple[str, ...] = ()
) -> DataSet:
    """Return the data set of two picture sources, normalised as ImageNet's usually are."""
    return DataSet("folder", f"from {request.name}", train, val, _IMAGENET_MEAN, _IMAGENET_STD, ignored_files, notes)


def list_folder(root: Path) -> Listing[FolderSource]:
    """List the training and validation pictures of a folder; all of them if its folders are classes.

    Raises:
        UserError: the layout is neither, a class has no pictures, or something cannot be listed.
    """
    lister = FolderLister(root)
    splits = lister.find_splits()
    if not splits:
        pictures = _own_classes(root, lister.list_split(""))
        return Listing({"all": pictures}, lister.ignored_files, lister.notes)
    if "train" not in splits:
        raise UserError(f"{root} has {'/ and '.join(splits.values())}/ but no train/", f"add {root}/train")
    train_root, name = root / splits["train"], _validation(lister, splits)
    own = lister.list_split(splits["train"])
    found = lister.list_split(name) if name else {}
    if not found and "val" not in splits:  # a test/ without classes, as competitions have it, cannot validate
        raise UserError(
            f"{root} has {splits['train']}/ but no val/",
            f"add {root}/val, or split a part off with --data {quoted(train_root)}",
        )
    train = _own_classes(train_root, own)
    val = _known_classes(root / name, found, train.classes, str(train_root))
    return Listing({"train": train, "val": val}, lister.ignored_files, lister.notes)


def open_folder_for_evaluation(root: Path, classes: tuple[str, ...], owner: str) -> Listing[FolderSource]:
    """List the validation pictures of a folder; all of them if its folders are classes. The owner defines the classes.

    Raises:
        UserError: it has a class that the owner lacks, no pictures, or something that cannot be listed.
    """
    lister = FolderLister(root)
    splits = lister.find_splits()
    name = _validation(lister, splits)
    if splits and not name:
        (train,) = splits.values()
        raise UserError(f"{root} has {train}/ but no val/", f"add {root}/val, or give --data {quoted(root / train)}")
    found = lister.list_split(name)
    if "train" in splits and lister.met_links:
        lister.list_split(splits["train"])  # refuses links that lead there
    pictures = _known_classes(root / name, found, classes, owner)
    return Listing({"val" if name else "all": pictures}, lister.ignored_files, lister.notes)


def _validation(lister: FolderLister, splits: Mapping[str, str]) -> str:
    """Return the folder to validate on, "" if there is none; note the folders that are not used."""
    name = splits.get("val") or splits.get("test") or ""
    if splits:
        lister.note_unused({splits.get("train", name), name})
    if name and "val" not in splits:
        lister.note(f"{name}/ is used for validation: there is no val/")
    return name


def _own_classes(root: Path, found: Mapping[str, Pictures]) -> FolderSource:
    """Return the source of a folder that defines the classes.

    Raises:
        UserError: there are fewer than two, or one has no pictures.
    """
    if len(found) < 2:
        only = f"only the class folder {next(iter(found))}" if found else "no class folders"
        deeper = f", or give --data {quoted(root / next(iter(found)))} if its folders are the classes" if found else ""
        hint = f"put the pictures into {root}/CLASS/, one folder for each class{deeper}"
        raise UserError(f"{root} holds {only}", hint)
    for name in (name for name, pictures in found.items() if not pictures.paths):
        raise _empty(root, name)
    return _source(root, tuple(found), range(len(found)), found)


def _known_classes(root: Path, found: Mapping[str, Pictures], classes: tuple[str, ...], owner: str) -> FolderSource:
    """Return the source of a folder whose classes are another's; some may be missing, not all."""
    if not found:
        raise UserError(f"{root} holds no pictures in class folders", f"put the pictures into {root}/CLASS/")
    source = _source(root, classes, labels_of(found, classes, str(root), owner), found)
    if not len(source):
        raise _empty(root, classes[0])
    return source


def _empty(root: Path, name: str) -> UserError:
    return UserError(f"the class folder {root / name} holds no pictures", "add some, or remove the folder")


def _source(root: Path, classes: tuple[str, ...], labels: Sequence[int], found: Mapping[str, Pictures]) -> FolderSource:
    """Return the source of classes with these labels, in the order of the labels."""
    ordered = sorted(zip(labels, found.values(), strict=True), key=itemgetter(0))
    pictures = [pictures for _, pictures in ordered]
    return FolderSource(
        classes,
        root,
        tuple(chain.from_iterable(of_class.paths for of_class in pictures)),
        np.repeat(np.array(sorted(labels), np.int64), [len(of_class.paths) for of_class in pictures]),
        np.array(list(chain.from_iterable(of_class.sizes for of_class in pictures)), np.int64),
    )
