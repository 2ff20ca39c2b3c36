"""Folders of pictures as data sets: finds their splits and classes, or splits them by the seed."""

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path

import numpy as np

from accel_train.data.sources.base import DataSet, LabelsFrom, Listing, Request, Source
from accel_train.data.sources.labelled import list_labelled
from accel_train.data.sources.listing import FolderLister, Pictures
from accel_train.data.sources.names import labels_of
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.split import refuse_val_fraction, split_ids
from accel_train.errors import UserError
from accel_train.loggers.text import quoted

_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_USUAL_LABELS = LabelsFrom()


def open_folder(request: Request) -> DataSet:
    root, origin, owner = Path(request.name), f"from {request.name}", request.name
    if file := request.labels.file:
        origin, owner = f"{origin}, labels from {file}", str(file)
    listing = list_pictures(root, request.labels, with_test=request.with_test)
    if "all" in listing.splits:
        pictures = listing.splits["all"]
        ids = split_ids(request, owner, pictures.classes, pictures.labels, pictures.path_hashes)
        train, val = map(pictures.only, ids)
    else:
        refuse_val_fraction(request, owner)
        train, val = listing.splits["train"], listing.splits["val"]
    return picture_data(origin, train, val, listing)


def picture_data(origin: str, train: Source, val: Source, listing: Listing[Source]) -> DataSet:
    """Return the data set of picture sources, normalised as ImageNet's usually are."""
    return DataSet(
        "folder",
        origin,
        train,
        val,
        _IMAGENET_MEAN,
        _IMAGENET_STD,
        ignored_files=listing.ignored_files,
        notes=listing.notes,
        test=listing.splits.get("test"),
    )


def list_pictures(root: Path, labels: LabelsFrom, *, with_test: bool) -> Listing[FolderSource]:
    """List the training and validation pictures of a folder; all of them if they have no splits.

    The test pictures too if they are wanted, are not used for validation and have labels.

    Raises:
        UserError: the layout or the file of labels cannot be used, or something cannot be listed.
    """
    if labels.file:
        return list_labelled(root, labels.file, labels.column).for_training(with_test=with_test)
    return list_folder(root, with_test=with_test)


def list_folder(root: Path, *, with_test: bool = False) -> Listing[FolderSource]:
    """List the pictures of a folder whose folders are the labels, see :func:`list_pictures`."""
    lister = FolderLister(root)
    splits = lister.find_splits()
    if not splits:
        pictures = _own_classes(root, lister.list_split(""))
        return Listing({"all": pictures}, lister.ignored_files, lister.notes)
    if "train" not in splits:
        raise UserError(f"{root} has {'/ and '.join(splits.values())}/ but no train/", f"add {root}/train")
    train_root, name = root / splits["train"], splits.get("val") or splits.get("test") or ""
    test = splits.get("test", name) if with_test else name
    _note_use(lister, splits, {splits["train"], name, test}, name)
    own = lister.list_split(splits["train"])
    found = lister.list_split(name) if name else {}
    if not found and "val" not in splits:  # a test/ without classes, as competitions have it, cannot validate
        raise UserError(
            f"{root} has {splits['train']}/ but no val/",
            f"add {root}/val, or split a part off with --data {quoted(train_root)}",
        )
    train = _own_classes(train_root, own)
    sources = {"train": train, "val": _known_classes(root / name, found, train.classes, str(train_root))}
    if test != name:
        try:
            sources["test"] = _known_classes(root / test, lister.list_split(test), train.classes, str(train_root))
        except UserError as error:  # training does not need it
            lister.note(f"{test}/ is not used: {error.message}")
    return Listing(sources, lister.ignored_files, lister.notes)


def open_folder_for_evaluation(
    root: Path,
    classes: tuple[str, ...],
    owner: str,
    split: str = "val",
    labels: LabelsFrom = _USUAL_LABELS,
) -> Listing[FolderSource]:
    """List the pictures of a split, val or test; as val all if there are no splits. The owner defines the classes.

    Raises:
        UserError: it has a class that the owner lacks, no pictures, or something that cannot be listed.
    """
    if labels.file:
        return list_labelled(root, labels.file, labels.column).for_evaluation(split, classes, owner)
    lister = FolderLister(root)
    splits = lister.find_splits()
    name = splits.get(split) or splits.get("test") or ""
    if split == "test" and not name:
        raise UserError(f"{root} has no test/", f"add {root}/test, or leave out --split")
    _note_use(lister, splits, {splits.get("train", name), splits.get("val", name), name}, name)
    if splits and not name:
        (train,) = splits.values()
        raise UserError(f"{root} has {train}/ but no val/", f"add {root}/val, or give --data {quoted(root / train)}")
    found = lister.list_split(name)
    if "train" in splits and lister.met_links:
        lister.list_split(splits["train"])  # refuses links that lead there
    pictures = _known_classes(root / name, found, classes, owner)
    return Listing({split if name else "all": pictures}, lister.ignored_files, lister.notes)


def _note_use(lister: FolderLister, splits: Mapping[str, str], used: set[str], name: str) -> None:
    """Note the folders beside the used ones, and if `name`, the test folder, validates."""
    if splits:
        lister.note_unused(used)
    if name and "val" not in splits:
        lister.note(f"{name}/ is used for validation: there is no val/")


def _own_classes(root: Path, found: Mapping[str, Pictures]) -> FolderSource:
    """Return the source of a folder that defines the classes.

    Raises:
        UserError: there are fewer than two, or one has no pictures.
    """
    if len(found) < 2:
        only = f"only the class folder {next(iter(found))}" if found else "no class folders"
        deeper = f", or give --data {quoted(root / next(iter(found)))} if its folders are the classes" if found else ""
        hint = f"put the pictures into {root}/CLASS/, or give a file of their labels with --labels{deeper}"
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
