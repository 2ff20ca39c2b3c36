"""Folders as data sets: what is listed, what is passed over, what validates.

Shape suffix: N images.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from accel_train.data.images.crops import FolderSource
from accel_train.data.sources.base import DataSet, Request, Source
from accel_train.errors import UserError
from accel_train.rng import hash_ids, make_key

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def open_folder(request: Request) -> DataSet:
    splits, ignored = list_folder(Path(request.name))
    if "all" in splits:
        every = splits["all"]
        train, val = (
            replace(every, paths=tuple(every.paths[i] for i in ids), labels=tuple(every.labels[i] for i in ids))
            for ids in split_ids(request, every.root, every.classes, torch.tensor(every.labels))
        )
    else:
        refuse_fraction(request)
        train, val = splits["train"], splits["val"]
    return picture_data(request, train, val, ignored)


def list_folder(root: Path) -> tuple[dict[str, FolderSource], int]:
    """List the pictures of `train` and `val`, or of a folder without them as `all`; count the other files.

    Raises:
        UserError: the folders are not laid out as they should be, or hold no pictures.
    """
    if not (root / "train").is_dir():
        every, ignored = _listed(root, _list_classes(root))
        return {"all": every}, ignored
    if not (root / "val").is_dir():
        raise UserError(
            f"{root} has train/ but no val/",
            f"add {root}/val, or split a part off with --data {root / 'train'}",
        )
    classes = _list_classes(root / "train")
    train, ignored = _listed(root / "train", classes)
    val, ignored_in_val = _listed_like(root / "val", classes, f"{root}/train")
    return {"train": train, "val": val}, ignored + ignored_in_val


def split_ids(request: Request, root: Path, classes: Sequence[str], labels_N: Tensor) -> tuple[list[int], list[int]]:
    """Choose by the seed which of all pictures train and which validate: the same share of every class.

    Raises:
        UserError: a class, a folder of `root`, is too small.
    """
    fraction = 0.2 if request.val_fraction is None else request.val_fraction
    order_N = hash_ids(make_key(request.seed, "split"), torch.arange(len(labels_N)))
    held_out_N = torch.zeros(len(labels_N), dtype=torch.bool)
    for label, name in enumerate(classes):
        ids = (labels_N == label).nonzero().flatten()
        count = max(1, round(len(ids) * fraction))
        if count >= len(ids):
            raise UserError(
                f"{root / name} holds {len(ids)} pictures, too few to split",
                "add some, or lower --val-fraction",
            )
        held_out_N[ids[order_N[ids].argsort()[:count]]] = True
    return (~held_out_N).nonzero().flatten().tolist(), held_out_N.nonzero().flatten().tolist()


def refuse_fraction(request: Request) -> None:
    if request.val_fraction is not None:
        raise UserError(f"--val-fraction has no effect: {request.name} has its own val/", "leave it out")


def evaluation_folder(root: Path, classes: tuple[str, ...], owner: str) -> FolderSource:
    """Open all pictures of a folder, of its val/ if it has one, labelled by the classes of `owner`.

    Raises:
        UserError: it holds a class that the owner lacks, or no pictures.
    """
    source, _ = _listed_like(root / "val" if (root / "val").is_dir() else root, classes, owner)
    return source


def _listed_like(root: Path, classes: tuple[str, ...], owner: str) -> tuple[FolderSource, int]:
    """List the pictures of classes that another folder or run defines, some of which may be missing."""
    for name in _folder_names(root):
        if name not in classes:
            raise UserError(
                f"{root} holds the class {name}, which {owner} lacks", f"add it there or remove {root / name}"
            )
    return _listed(root, classes, may_lack_classes=True)


def _listed(root: Path, classes: tuple[str, ...], may_lack_classes: bool = False) -> tuple[FolderSource, int]:
    paths, labels, ignored = _list_pictures(root, classes)
    empty = sorted(set(range(len(classes))) - set(labels))
    if empty and not (may_lack_classes and labels):
        raise UserError(
            f"the class folder {root / classes[empty[0]]} holds no pictures", "add some, or remove the folder"
        )
    return FolderSource(classes, root, paths, labels), ignored


def picture_data(request: Request, train: Source, val: Source, ignored_files: int = 0) -> DataSet:
    return DataSet("folder", f"from {request.name}", train, val, _IMAGENET_MEAN, _IMAGENET_STD, ignored_files)


def _list_classes(root: Path) -> tuple[str, ...]:
    """Return the names of the class folders, sorted.

    Raises:
        UserError: there are fewer than two.
    """
    names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))
    if len(names) < 2:
        found = f"only the class folder {names[0]}" if names else "no class folders"
        raise UserError(f"{root} holds {found}", f"put the pictures into {root}/CLASS/, one folder for each class")
    return tuple(names)


def _list_pictures(root: Path, classes: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Return the paths below the class folders, their labels, and how many other files were passed over.

    Hidden files and folders count for nothing; folders below a class folder belong to its class.
    """
    paths, labels, ignored = [], [], 0
    for label, name in enumerate(classes):
        for folder, folders, files in os.walk(root / name, followlinks=True):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and not _leads_back(folder, f))
            below = os.path.relpath(folder, root)
            for file in sorted(f for f in files if not f.startswith(".")):
                if os.path.splitext(file)[1].lower() in EXTENSIONS:  # noqa: PTH122
                    paths.append(f"{below}/{file}")
                    labels.append(label)
                else:
                    ignored += 1
    return tuple(paths), tuple(labels), ignored


def _folder_names(root: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and not entry.name.startswith("."))


def _leads_back(folder: str, name: str) -> bool:
    """Tell whether a link leads to the folder that holds it, or to one above."""
    path = Path(folder) / name
    return path.is_symlink() and Path(folder).resolve().is_relative_to(path.resolve())
