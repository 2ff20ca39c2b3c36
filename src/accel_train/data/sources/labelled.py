"""Folders of pictures whose labels are in a file, which names the pictures, their classes and perhaps their splits."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from stat import S_ISREG

import numpy as np
from numpy.typing import NDArray

from accel_train.data.images.endings import is_picture
from accel_train.data.sources.base import Listing
from accel_train.data.sources.label_file import ONE_LABEL, Labels, read_labels
from accel_train.data.sources.listing import some
from accel_train.data.sources.names import labels_of, normalized, refuse_alike
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError
from accel_train.loggers.text import quantity, quoted


@dataclass(frozen=True)
class LabelledPictures:
    """The pictures below a folder that a file of labels lists."""

    root: Path
    labels: Labels
    paths: Sequence[str]
    """Below the root, one for each entry of the file."""

    def for_training(self, *, with_test: bool) -> Listing[FolderSource]:
        """Return train and val, or all if the file has no splits; test too if it is wanted and not used as val.

        Raises:
            UserError: a split is missing, or has a class that train lacks.
        """
        file, found = self.labels.path, self._splits
        if "all" in found:
            return Listing({"all": self._source("all")}, notes=self._notes())
        val = "val" if "val" in found else "test"
        for name, split in {"train": "train", "val": val}.items():
            if split not in found:
                hint = "mark some, or remove the column split: a part is then held out by --val-fraction"
                raise UserError(f"{file} lists no pictures of the split {name}", hint)
        train = self._source("train")
        splits = {"train": train, "val": self._source(val, train.classes, f"the split train of {file}")}
        if with_test and val != "test" and "test" in found:
            splits["test"] = self._source("test", train.classes, f"the split train of {file}")
        unused = () if val == "test" or "test" in splits or "test" not in found else ("test",)
        return Listing(splits, notes=self._notes(unused=unused, val=val))

    def for_evaluation(self, split: str, classes: tuple[str, ...], owner: str) -> Listing[FolderSource]:
        """Return a split, val or test, or all if the file has no splits; the owner defines the classes.

        Raises:
            UserError: the file has no such split, or a class that the owner lacks.
        """
        found = self._splits
        if split == "val" and "all" in found:
            return Listing({"all": self._source("all", classes, owner)}, notes=self._notes())
        stored = "test" if split == "val" and "val" not in found else split
        if stored not in found:
            raise UserError(f"{self.labels.path} lists no pictures of the split {split}", "mark some in a column split")
        return Listing(
            {split: self._source(stored, classes, owner)}, notes=self._notes(val=stored if split == "val" else "val")
        )

    @property
    def _splits(self) -> frozenset[str]:
        return frozenset(self.labels.splits or ["all"])

    def _source(self, split: str, classes: tuple[str, ...] | None = None, owner: str = "") -> FolderSource:
        """Return the pictures of a split, in the order of those of class folders: by class, then by path."""
        labels, file = self.labels.labels, str(self.labels.path)
        positions = [n for n, kind in enumerate(self.labels.splits or ["all"] * len(self.paths)) if kind == split]
        names = sorted({labels[n] for n in positions})
        refuse_alike(names, file)
        if classes is None and len(names) < 2:
            raise UserError(f"{file} holds only the class {names[0]}", "list pictures of two classes or more")
        classes = classes or tuple(names)
        label_of = dict(zip(names, labels_of(names, classes, file, owner), strict=True))
        positions.sort(key=lambda n: (label_of[labels[n]], normalized(self.paths[n])))
        return FolderSource(
            classes,
            self.root,
            tuple(self.paths[n] for n in positions),
            np.array([label_of[labels[n]] for n in positions], np.int64),
            self._sizes(positions),
            labels_in_paths=False,
        )

    def _sizes(self, positions: Sequence[int]) -> NDArray[np.int64]:
        """Return the bytes of each file.

        Raises:
            UserError: there are no such files.
        """
        sizes = {n: _size(f"{self.root}/{self.paths[n]}") for n in positions}
        if missing := [n for n, size in sizes.items() if size is None]:
            first = min(missing)
            files = quantity(len(missing), "picture that does not exist", "pictures that do not exist")
            raise UserError(
                f"{self.labels.path} lists {files}, the first in {self.labels.place(first)}: "
                f"{quoted(self.paths[first])}",
                _where(self.root, self.paths[first]),
            )
        return np.array(list(sizes.values()), np.int64)

    def _notes(self, *, unused: Sequence[str] = (), val: str = "val") -> tuple[str, ...]:
        """Return what of the file and the folder is not used, one sentence each."""
        file, listed = self.labels.path, set(self.paths)
        others = sum(path not in listed for path in _pictures_below(self.root))
        notes = {
            f"the split test of {file} is used for validation: it has no val": val == "test",
            f"not used in {file}: the split test": bool(unused),
            f"columns of {file} that are not used: {some(self.labels.unused)}": bool(self.labels.unused),
            f"{quantity(others, 'picture')} in {self.root}, not listed in {file}: ignored": bool(others),
        }
        return tuple(note for note, applies in notes.items() if applies)


def list_labelled(root: Path, file: Path, label_column: str | None) -> LabelledPictures:
    """Read a file of labels, and find the path of each picture below a folder.

    Raises:
        UserError: the file cannot be used, has a path that leads out of the folder, or lists a picture twice.
    """
    labels = read_labels(file, label_column)
    paths = [_below(root, path, labels.place(n)) if _is_odd(path) else path for n, path in enumerate(labels.files)]
    if len(set(paths)) < len(paths):
        _refuse_repeated(labels, paths)
    return LabelledPictures(root, labels, paths)


def _is_odd(path: str) -> bool:
    return path.startswith(("/", "./", "..")) or "//" in path or "/." in path


def _below(root: Path, path: str, place: str) -> str:
    """Return a path below the folder in its shortest form."""
    below = os.path.relpath(os.path.join(os.path.abspath(root), path), root)  # noqa: PTH100, PTH118
    if below.startswith(".."):
        parent = os.path.commonpath([os.path.abspath(root), os.path.abspath(root / path)])  # noqa: PTH100
        raise UserError(f"{place}: {path} is not below {root}", f"give --data {quoted(parent)}, and paths below it")
    return below


def _refuse_repeated(labels: Labels, paths: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for n, path in enumerate(paths):
        first = seen.setdefault(path, n)
        if labels.labels[first] != labels.labels[n]:
            given = f"{labels.labels[first]} in {labels.unit} {labels.numbers[first]} and {labels.labels[n]}"
            raise UserError(f"{labels.place(n)}: {path} has several labels: {given}", ONE_LABEL)
        if first != n:
            raise UserError(
                f"{labels.place(n)}: {path} is listed already in {labels.unit} {labels.numbers[first]}",
                "list each picture once",
            )


def _size(path: str) -> int | None:
    """Return the bytes of a regular file; None if there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116 - three times as fast as Path's
    except (OSError, ValueError):  # ValueError: NUL in its name
        return None
    return status.st_size if S_ISREG(status.st_mode) else None


def _where(root: Path, path: str) -> str:
    """Return a hint to where the picture of a path may be."""
    for found in _pictures_below(root):
        if found.endswith(f"/{path}"):
            return f"give --data {quoted(root / found.removesuffix(path))}"
        if found == f"{path}{PurePath(found).suffix}":
            return f"write names with their endings, such as {found}"
        if PurePath(found).name == PurePath(path).name:
            return f"give paths below {root}, such as {found}"
    return f"give paths below {root}, or its place with --data"


def _pictures_below(root: Path) -> Iterator[str]:
    """Yield the path of each picture below a folder; links to folders are not followed."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = os.path.relpath(folder, root)
        for name in files:
            if is_picture(name) and not name.startswith("."):
                yield name if below == "." else f"{below}/{name}"
