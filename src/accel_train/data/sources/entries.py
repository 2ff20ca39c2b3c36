"""Reads what a folder of pictures holds: an entry that cannot be read is an error that names it."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from accel_train.data.images.endings import is_picture
from accel_train.data.sources.names import left_by_programs
from accel_train.errors import UserError


@dataclass
class Entries:
    """What a folder holds."""

    folders: dict[str, bool] = field(default_factory=dict)
    """By name; True for a link."""
    pictures: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes, by name."""
    linked: dict[str, str] = field(default_factory=dict)
    """The real folder of the file, by name, for pictures that are links."""
    others: list[str] = field(default_factory=list)
    """Files of other kinds, and what is no regular file: a FIFO would block its reader."""
    left: list[str] = field(default_factory=list)
    """Folders of other programs."""
    hidden: list[str] = field(default_factory=list)


def read_entries(folder: str, real_path: Callable[[str], str]) -> Entries:
    """Read a folder; `real_path` resolves links.

    Raises:
        UserError: it cannot be listed, or an entry is a link to nothing or cannot be looked at.
    """
    found = Entries()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    found.hidden.append(name)
                elif entry.is_file(follow_symlinks=False):  # by far the most; costs nothing
                    if is_picture(name):
                        found.pictures[name] = entry.stat(follow_symlinks=False).st_size
                    else:
                        found.others.append(name)
                else:
                    _add_special(found, entry, real_path)
    except OSError as error:
        raise UserError(
            f"cannot list {error.filename or folder}: {error.strerror}", "make it readable, or move it elsewhere"
        ) from None
    return found


def in_order(names: Iterable[str]) -> list[str]:
    """Sort names; composed and decomposed letters have the same place."""
    ordered = sorted(names)
    if all(map(str.isascii, ordered)):
        return ordered
    return sorted(ordered, key=lambda name: unicodedata.normalize("NFC", name))


def _add_special(found: Entries, entry: os.DirEntry[str], real_path: Callable[[str], str]) -> None:
    """Add a folder, a link or what is neither a file nor a folder."""
    is_link = entry.is_symlink()
    if entry.is_dir():
        if left_by_programs(entry.name):
            found.left.append(entry.name)
        else:
            found.folders[entry.name] = is_link
    elif entry.is_file():
        if is_picture(entry.name):
            found.pictures[entry.name] = entry.stat().st_size
            found.linked[entry.name] = _folder_of_file(entry.path, real_path)
        else:
            found.others.append(entry.name)
    elif is_link and not os.path.exists(entry.path):  # noqa: PTH110 - entries have no Path
        raise UserError(
            f"{entry.path} is a link to {os.readlink(entry.path)}, which does not exist",  # noqa: PTH115
            "mend the link, or remove it",
        )
    else:
        found.others.append(entry.name)


def _folder_of_file(link: str, real_path: Callable[[str], str]) -> str:
    """Return the real folder of the file that a link leads to; most links lead straight to one."""
    target = os.path.join(real_path(os.path.dirname(link)), os.readlink(link))  # noqa: PTH115, PTH118, PTH120
    if os.path.islink(target):  # noqa: PTH114
        target = real_path(target)
    return real_path(os.path.dirname(target))  # noqa: PTH120
