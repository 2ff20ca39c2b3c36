"""Folders of pictures as data sets: listed by class, split by the seed, decoded when read.

Shape suffixes: N pictures of a folder, B images of a batch, C channels, H height, W width.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional

from accel_train.data.images.crops import Box, crop_box, typical_side
from accel_train.data.images.decode import decode_window
from accel_train.data.sources.base import DataSet, Ids, Request, Source, View, as_list, crop_keys
from accel_train.errors import LocalError, UserError
from accel_train.rng import hash_ids, make_key

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".ppm", ".pgm", ".tif", ".tiff"})
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class FolderSource:
    """Picture files; a label is the index in `classes` of the name of the top folder."""

    classes: tuple[str, ...]
    root: Path
    paths: tuple[str, ...]
    """Relative to `root`; the first part is the class."""
    labels: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Estimate a size from the headers of some pictures."""
        side = typical_side(len(self), self._shorter_side)
        return 3, side, side

    def __len__(self) -> int:
        return len(self.paths)

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        shape = (len(ids), 3, view.size, view.size)
        images_BCHW = torch.empty(shape, dtype=torch.uint8, memory_format=torch.channels_last)  # as decoders write
        for position, (image_id, key) in enumerate(zip(as_list(ids), crop_keys(ids, keys, view), strict=True)):
            images_BCHW[position] = self._picture(image_id, key, view.size)
        return images_BCHW, torch.tensor([self.labels[i] for i in ids])

    def _shorter_side(self, image_id: int) -> int:
        path = self._path(image_id)
        try:
            with Image.open(path) as picture:
                return min(picture.size)
        except Exception as error:  # Pillow's plugins raise any type
            raise UserError(*_unreadable(path, error)) from None  # every process looks at this picture

    def _path(self, image_id: int) -> str:
        return f"{self.root}/{self.paths[image_id]}"

    def _picture(self, image_id: int, key: int | None, size: int) -> Tensor:
        window_HWC = torch.from_numpy(read_window(self._path(image_id), partial(crop_box, key=key), size))
        window_1CHW = window_HWC[None].permute(0, 3, 1, 2)  # these strides make torch keep it channels last
        return functional.interpolate(window_1CHW, size=(size, size), mode="bilinear", antialias=True)[0]


def read_window(path: str, choose_box: Callable[[int, int], Box], enough: int) -> NDArray[np.uint8]:
    """Return the pixels_HWC of a box of the picture in a file, see :func:`decode_window`.

    Raises:
        LocalError: the picture cannot be read.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123  making a Path takes longer than opening the file
            return decode_window(file.read(), choose_box, enough)
    except Exception as error:  # damaged bytes make decoders raise any type
        raise LocalError(*_unreadable(path, error)) from None


def _unreadable(path: str, error: Exception) -> tuple[str, str]:
    return f"cannot read the picture {path}: {error}", "repair it or remove it"


def open_folder(request: Request) -> DataSet:
    splits, ignored = list_folder(Path(request.name))
    if "all" in splits:
        pictures = splits["all"]
        train, val = (
            replace(
                pictures, paths=tuple(pictures.paths[i] for i in ids), labels=tuple(pictures.labels[i] for i in ids)
            )
            for ids in split_ids(request, pictures.root, pictures.classes, torch.tensor(pictures.labels))
        )
    else:
        refuse_val_fraction(request)
        train, val = splits["train"], splits["val"]
    return folder_data(request, train, val, ignored)


def open_folder_for_evaluation(root: Path, classes: tuple[str, ...], owner: str) -> FolderSource:
    """Open a folder's val/, or all of it if it has none, with the labels of the owner's classes.

    Raises:
        UserError: the folder has a class that the owner lacks, or no pictures.
    """
    source, _ = _list_known_classes(root / "val" if (root / "val").is_dir() else root, classes, owner)
    return source


def folder_data(request: Request, train: Source, val: Source, ignored_files: int = 0) -> DataSet:
    """Return the data set of two picture sources, normalised as ImageNet's usually are."""
    return DataSet("folder", f"from {request.name}", train, val, _IMAGENET_MEAN, _IMAGENET_STD, ignored_files)


def refuse_val_fraction(request: Request) -> None:
    if request.val_fraction is not None:
        raise UserError(f"--val-fraction has no effect: {request.name} has its own val/", "leave it out")


def split_ids(request: Request, root: Path, classes: Sequence[str], labels_N: Tensor) -> tuple[list[int], list[int]]:
    """Split pictures into training and validation ids by the seed, with the same fraction of every class.

    Raises:
        UserError: a class folder of `root` has too few pictures.
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


def list_folder(root: Path) -> tuple[dict[str, FolderSource], int]:
    """List the pictures of train/ and val/, or of a folder without them as "all"; count the ignored files.

    Raises:
        UserError: the layout is not one of these, or a class has no pictures.
    """
    if not (root / "train").is_dir():
        pictures, ignored = _list_split(root, _list_classes(root))
        return {"all": pictures}, ignored
    if not (root / "val").is_dir():
        raise UserError(
            f"{root} has train/ but no val/",
            f"add {root}/val, or split a part off with --data {root / 'train'}",
        )
    classes = _list_classes(root / "train")
    train, ignored = _list_split(root / "train", classes)
    val, ignored_in_val = _list_known_classes(root / "val", classes, f"{root}/train")
    return {"train": train, "val": val}, ignored + ignored_in_val


def _list_known_classes(root: Path, classes: tuple[str, ...], owner: str) -> tuple[FolderSource, int]:
    """List pictures, labelled by the classes of another folder or run; a class may be missing here."""
    for name in _folder_names(root):
        if name not in classes:
            raise UserError(
                f"{root} holds the class {name}, which {owner} lacks", f"add it there or remove {root / name}"
            )
    return _list_split(root, classes, may_lack_classes=True)


def _list_split(root: Path, classes: tuple[str, ...], may_lack_classes: bool = False) -> tuple[FolderSource, int]:
    paths, labels, ignored = _list_pictures(root, classes)
    empty = sorted(set(range(len(classes))) - set(labels))
    if empty and not (may_lack_classes and labels):
        raise UserError(
            f"the class folder {root / classes[empty[0]]} holds no pictures", "add some, or remove the folder"
        )
    return FolderSource(classes, root, paths, labels), ignored


def _list_classes(root: Path) -> tuple[str, ...]:
    """Return the names of the class folders, sorted.

    Raises:
        UserError: there are fewer than two.
    """
    names = _folder_names(root)
    if len(names) < 2:
        found = f"only the class folder {names[0]}" if names else "no class folders"
        raise UserError(f"{root} holds {found}", f"put the pictures into {root}/CLASS/, one folder for each class")
    return tuple(names)


def _list_pictures(root: Path, classes: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...], int]:
    """Return the pictures' paths, their labels, and the number of ignored files.

    Folders below a class folder belong to its class. Hidden files and folders are skipped and not counted.
    """
    paths, labels, ignored = [], [], 0
    for label, name in enumerate(classes):
        for folder, folders, files in os.walk(root / name, followlinks=True):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and not _is_link_to_parent(folder, f))
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


def _is_link_to_parent(folder: str, name: str) -> bool:
    """Return whether a link points to the folder that contains it, or to one above."""
    path = Path(folder) / name
    return path.is_symlink() and Path(folder).resolve().is_relative_to(path.resolve())
