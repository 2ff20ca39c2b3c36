"""Finds the pictures that a user names without labels: files, folders, patterns, lists and zips.

What cannot be listed is returned as a picture: reading it fails with the reason.
"""

import glob
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from accel_train.data.images.endings import ending_of, is_picture
from accel_train.data.sources.entries import in_order
from accel_train.data.sources.listing import ignored_note, some
from accel_train.data.sources.names import is_ours, left_by_programs
from accel_train.data.sources.zip_members import Member, list_members
from accel_train.errors import UserError
from accel_train.loggers.text import quantity, quoted

LIST = "-"
"""The path that stands for a list on stdin."""


class Picture(NamedTuple):
    """A picture file, or a member of a zip."""

    name: str
    """As it is shown: the path; of a member, the zip and the path in it."""
    path: str
    member: Member | None = None
    """Of the zip at this path."""


class Inputs(NamedTuple):
    """The pictures that a user has named, in the order given."""

    pictures: tuple[Picture, ...]
    notes: tuple[str, ...] = ()
    """What is ignored, one sentence each."""


def find_pictures(paths: Sequence[str], read_list: Callable[[], bytes]) -> Inputs:
    """Return the pictures that paths lead to; `read_list` returns the list that the path `-` stands for.

    A folder and a zip stand for the pictures in them, by their endings; a file that is named is a picture whatever its
    ending. A list has one path a line or, if it contains a NUL, a NUL after each path. No picture is returned twice.

    Raises:
        UserError: a path leads to nothing, or there are no pictures.
    """
    finder = _Finder()
    for path in paths:
        if path == LIST:
            finder.add_list(read_list())
        else:
            finder.add(os.path.expanduser(path))  # noqa: PTH111 - Path's raises for an unknown user
    if not finder.pictures:
        searched = some(["the list on stdin" if path == LIST else quoted(path) for path in paths])
        raise UserError(f"no pictures in {searched}", "give picture files, or folders or zips that contain some")
    return Inputs(tuple(finder.pictures.values()), finder.notes)


class _Finder:
    """Collects pictures; remembers what it has ignored."""

    def __init__(self) -> None:
        self.pictures: dict[object, Picture] = {}
        """By real folder and name, and member of a zip."""
        self._new: set[object] = set()
        """Those of the path that is being added, which may reach a picture in several ways."""
        self._repeated = 0
        self._ignored: set[str] = set()
        """Files of other kinds."""
        self._ours: list[str] = []
        self._real_path = cache(os.path.realpath)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is ignored; one sentence each."""
        notes = []
        if self._ignored:
            notes.append(ignored_note(Counter(ending_of(path.rpartition("/")[2]) for path in self._ignored)))
        if self._ours:
            notes.append(f"folders of runs and packed folders are ignored: {some(self._ours)}")
        if self._repeated:
            notes.append(f"{quantity(self._repeated, 'picture')} given again: each is used once")
        return tuple(notes)

    def add(self, path: str) -> None:
        """Add what the user has named.

        Raises:
            UserError: it leads to nothing, or is no zip although it is called so.
        """
        self._new.clear()
        if not os.path.lexists(path) and glob.has_magic(path):
            self._add_pattern(path)
        elif not os.path.exists(path):  # noqa: PTH110 - Path's may raise
            raise UserError(f"there is no file or folder {quoted(path)}", "give files, folders, zips or patterns")
        else:
            self._add_any(path)

    def add_list(self, content: bytes) -> None:
        """Add the paths of a list, whatever they lead to."""
        paths = content.split(b"\0")
        if len(paths) == 1:
            paths = [line.removesuffix(b"\r") for line in content.split(b"\n")]
        for path in map(os.fsdecode, filter(None, paths)):
            self._new.clear()
            if is_picture(path):  # without looking at it: on a network disk that takes a millisecond
                self._add(path)
                continue
            try:
                self._add_any(path)
            except UserError:  # it is no zip
                self._add(path)

    def _add_pattern(self, pattern: str) -> None:
        matches = in_order(glob.glob(pattern, recursive=True))  # noqa: PTH207 - Path's gives other names
        if not matches:
            raise UserError(f"{quoted(pattern)} matches no file or folder", "give a pattern such as 'photos/*.jpg'")
        typed = set(pattern.split("/"))
        for path in matches:
            if any(map(left_by_programs, set(path.split("/")) - typed)):
                continue
            if is_picture(path) or _is_zip(path) or os.path.isdir(path):  # noqa: PTH112
                self._add_any(path)
            else:
                self._ignored.add(path)

    def _add_any(self, path: str) -> None:
        if os.path.isdir(path):  # noqa: PTH112 - of each path of a list
            self._add_folder(path)
        elif _is_zip(path):
            self._add_zip(path)
        else:
            self._add(path)

    def _add(self, path: str, member: Member | None = None) -> None:
        folder, file = os.path.split(path)
        key = self._real_path(folder or "."), file, member
        if key not in self.pictures:
            name = f"{path}/{member.name.lstrip('/')}" if member else path
            self.pictures[key] = Picture(name, path, member)
            self._new.add(key)
        elif key not in self._new:
            self._repeated += 1

    def _add_zip(self, path: str) -> None:
        try:
            members = list_members(path)
        except Exception as error:  # zipfile raises any type
            raise UserError(f"cannot read the zip {quoted(path)}: {error}", "make it again, or leave it out") from None
        for member in members:
            folders = member.name.split("/")
            if any(map(_is_hidden, folders)):
                continue
            if is_picture(folders[-1]):
                self._add(path, member)
            else:
                self._ignored.add(f"{path}/{member.name}")

    def _add_folder(self, root: str) -> None:
        """Add the pictures in a folder and the folders below it; one to which several links lead is entered once."""
        root = root.rstrip("/") or "/"
        entered, waiting = set[str](), [root]
        while waiting:
            folder = waiting.pop()
            if (real := self._real_path(folder)) in entered:
                continue
            entered.add(real)
            try:
                with os.scandir(folder) as entries:
                    names = {entry.name: _is_folder(entry) for entry in entries}
            except OSError:
                self._add(folder)  # reading it fails with the reason
                continue
            if folder != root and is_ours(names, [name for name, is_folder in names.items() if is_folder]):
                self._ours.append(folder)
            else:
                waiting += self._add_files("" if folder == "/" else folder, names)

    def _add_files(self, folder: str, names: Mapping[str, bool]) -> list[str]:
        """Add the pictures of a folder; return the folders to enter, the first one last. `names` maps to True those."""
        shown = in_order(name for name in names if not name.startswith("."))
        for name in shown:
            if names[name]:
                continue
            if is_picture(name):
                self._add(f"{folder}/{name}")
            else:
                self._ignored.add(f"{folder}/{name}")
        return [f"{folder}/{name}" for name in reversed(shown) if names[name] and not left_by_programs(name)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as links in a circle
        return False


def _is_hidden(part: str) -> bool:
    """Return whether a part of a path in a zip hides what it names, or is left by other programs."""
    return (part.startswith(".") and part not in (".", "..")) or left_by_programs(part)


def _is_zip(path: str) -> bool:
    return path.lower().endswith(".zip")
