"""Lists the pictures of a data folder by split and class; nothing is missed, or reached twice, in silence."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from accel_train.data.images.endings import ending_of, missing_decoder
from accel_train.data.sources.entries import Entries, in_order, read_entries
from accel_train.data.sources.names import SplitName, class_name, is_ours, refuse_alike, split_name
from accel_train.errors import UserError
from accel_train.loggers.text import quoted

_MOST_NAMED = 5


@dataclass
class Pictures:
    """The pictures of a class."""

    paths: list[str] = field(default_factory=list)
    """Below the folder of the split."""
    sizes: list[int] = field(default_factory=list)
    """In bytes."""


class FolderLister:
    """Lists the folders of one data set; remembers where it has been, and what it has ignored.

    Links may lead out of the data set. One that leads to another place in it would make two pictures of one.
    """

    def __init__(self, root: Path) -> None:
        self.met_links = False
        self._root = root
        self._real_path = cache(os.path.realpath)
        real = self._real_path(str(root))
        self._entered = {str(parent): str(parent) for parent in Path(real).parents}
        """Folders that cannot be entered again, by real path: those above the root, and those listed."""
        self._classes: dict[str, str] = {}
        """The class folder of each folder listed, by real path."""
        self._links: list[tuple[str, str, str]] = []
        """Of each picture that is a link: its path, its folder and the folder of the file, the last two real."""
        self._ignored: Counter[str] = Counter()
        """Files of other kinds, by ending."""
        self._left: Counter[str] = Counter()
        self._ours: list[str] = []
        self._notes: list[str] = []
        self._top = self._enter(str(root), real)
        self._ignore(self._top)
        self._note_strays(str(root), self._top)

    @property
    def ignored_files(self) -> int:
        """Number of files of other kinds."""
        return self._ignored.total()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is ignored; one sentence each."""
        notes = list(self._notes)
        if self._ignored:
            notes.append(ignored_note(self._ignored))
        if self._left:
            left = [f"{count:,} × {name}" for name, count in sorted(self._left.items())]
            notes.append(f"folders of other programs are ignored: {some(left)}")
        if self._ours:
            notes.append(f"folders of runs and packed folders are ignored: {some(self._ours)}")
        return tuple(notes)

    def note(self, sentence: str) -> None:
        self._notes.append(sentence)

    def find_splits(self) -> dict[str, str]:
        """Return the name of the folder of each split: train, val, test; nothing if all folders are classes.

        A folder named after a split is one if there is another of the same set (`train` and `val`, `seg_train` and
        `seg_test`). If it is the only one, it is a class if it holds pictures and no folders.

        Raises:
            UserError: two folders mean the same split.
        """
        splits = _of_several_kinds(self._top.folders)
        if not splits:
            splits = {name: split for name in self._top.folders if (split := split_name(name)) and not split.rest}
            if len(splits) == 1 < len(self._top.folders) and self._holds_only_pictures(*splits):
                return {}
        found: dict[str, str] = {}
        for name in sorted(splits):
            if (other := found.setdefault(splits[name].kind, name)) != name:
                raise UserError(
                    f"{self._root} holds {other}/ and {name}/, which mean the same split",
                    "rename or remove one of them",
                )
        return found

    def note_unused(self, used: Iterable[str]) -> None:
        """Note the folders beside those that are used."""
        if unused := in_order(self._top.folders.keys() - set(used)):
            self.note(f"not used in {self._root}: {some([f'{name}/' for name in unused])}")

    def list_split(self, name: str) -> dict[str, Pictures]:
        """Return the pictures of each class below a folder of the root ("" for the root itself), ordered by class.

        Folders below a class folder belong to its class. A class may have no pictures.

        Raises:
            UserError: something cannot be listed or is reached twice, or the names of two classes read the same.
        """
        root, entries = str(self._root / name), self._top
        if name:
            entries = self._enter(root, self._real_path(root))
            self._ignore(entries)
            self._note_strays(root, entries)
        folders = sorted(entries.folders, key=class_name)
        refuse_alike(folders, root)
        classes = {}
        for folder in folders:
            runs = len(self._ours)
            pictures = self._list_class(root, folder)
            if pictures.paths or len(self._ours) == runs:  # a folder of runs is no class
                classes[class_name(folder)] = pictures
        self._refuse_links_between_classes()
        return classes

    def _list_class(self, root: str, folder: str) -> Pictures:
        found = Pictures()
        class_folder = f"{root}/{folder}"
        waiting = [(folder, self._real_path(class_folder))]
        while waiting:
            below, real = waiting.pop()
            path = f"{root}/{below}"
            entries = self._enter(path, real)
            if is_ours([*entries.others, *entries.hidden], entries.folders):
                self._ours.append(path)
                continue
            _refuse_splits(path, entries.folders)
            self._ignore(entries)
            self._classes[real] = class_folder
            self._links += [(f"{path}/{name}", real, target) for name, target in entries.linked.items()]
            names = in_order(entries.pictures)
            found.paths += [f"{below}/{name}" for name in names]
            found.sizes += [entries.pictures[name] for name in names]
            for name in reversed(in_order(entries.folders)):
                is_link = entries.folders[name]
                waiting.append((f"{below}/{name}", self._real_path(f"{path}/{name}") if is_link else f"{real}/{name}"))
        return found

    def _enter(self, path: str, real: str) -> Entries:
        if (other := self._entered.setdefault(real, path)) != path:
            raise UserError(f"{path} and {other} are the same folder", "remove the link that leads from one to another")
        entries = read_entries(path, self._real_path)
        self.met_links |= bool(entries.linked) or any(entries.folders.values())
        return entries

    def _ignore(self, entries: Entries) -> None:
        self._ignored.update(map(ending_of, entries.others))
        self._left.update(entries.left)

    def _note_strays(self, path: str, entries: Entries) -> None:
        if count := len(entries.pictures):
            self.note(f"{count:,} picture{'s' * (count > 1)} directly in {path}, in no class folder: ignored")

    def _holds_only_pictures(self, name: str) -> bool:
        entries = read_entries(str(self._root / name), self._real_path)
        return bool(entries.pictures) and not entries.folders

    def _refuse_links_between_classes(self) -> None:
        for link, folder, target in self._links:
            if self._classes.get(target, self._classes[folder]) != self._classes[folder]:
                raise UserError(
                    f"{link} is a link to a picture of another class or split, {self._classes[target]}",
                    "remove the link, or replace it by a copy",
                )


def some(names: Sequence[str]) -> str:
    """List the first names."""
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + f" and {more:,} more" * (more > 0)


def ignored_note(endings: Mapping[str, int]) -> str:
    """Return a note on files that are not pictures, by ending."""
    most_first = sorted(endings.items(), key=lambda item: (-item[1], item[0]))
    return f"files of other kinds are ignored: {some([_ignored(*item) for item in most_first])}"


def _ignored(ending: str, count: int) -> str:
    way = missing_decoder(ending)
    return f"{count:,} × {ending or 'no ending'}" + f" ({way})" * bool(way)


def _of_several_kinds(folders: Iterable[str]) -> dict[str, SplitName]:
    """Return the folders named after splits of sets that have more than one kind of them."""
    named = {folder: split for folder in folders if (split := split_name(folder))}
    kinds = {rest: {split.kind for split in named.values() if split.rest == rest} for _, rest in named.values()}
    return {folder: split for folder, split in named.items() if len(kinds[split.rest]) > 1}


def _refuse_splits(class_folder: str, folders: Iterable[str]) -> None:
    if splits := in_order(_of_several_kinds(folders)):
        raise UserError(
            f"{class_folder} holds {' and '.join(f'{name}/' for name in splits)}: splits below a class",
            f"give --data {quoted(class_folder)}, or put the splits above the classes: train/CLASS/… and val/CLASS/…",
        )
