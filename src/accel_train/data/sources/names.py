"""What the names of folders mean: splits, classes, and what other programs leave behind."""

import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from accel_train.errors import UserError

HUB = "hf:"
"""Begins the names of data sets of the Hugging Face Hub."""
SAVED_SPLITS, SAVED_STATE, SAVED_INFO = "dataset_dict.json", "state.json", "dataset_info.json"
"""Files of `save_to_disk` of the library `datasets`: the first above the splits, the others in each table."""
_WORDS = {
    "train": ("train", "training", "trn"),
    "val": ("val", "valid", "validation", "dev"),
    "test": ("test", "testing", "eval", "evaluation"),
}
_KINDS = {word: kind for kind, words in _WORDS.items() for word in words}
_ADDED = frozenset({"", "data", "image", "images", "img", "imgs", "photos", "pictures", "split"})
"""Words that make no difference to the name of a split; so do digits, and a `set` at the end of a word."""
_LEFT_BY_PROGRAMS = frozenset(
    {
        *("@eadir", "@tmp", "#recycle", "#snapshot", "@recycle", "@recently-snapshot", "@upload_cache"),  # NAS
        *("__macosx", "network trash folder", "temporary items", "thevolumesettingsfolder", "resource.frk"),  # macOS
        *("$recycle.bin", "recycler", "recycled", "system volume information", "found.000"),  # Windows
        *("lost+found", "lost.dir", "~snapshot", "_gsdata_", "__pycache__", "node_modules"),
    }
)
_INVISIBLE = ("Cf", "Cc")
"""Unicode's categories of characters that format text."""


class SplitName(NamedTuple):
    """What the name of a folder says about splits: `seg_train` is the split train of `seg`."""

    kind: str
    """train, val or test."""
    rest: str
    """The other words of the name."""


def split_name(folder: str) -> SplitName | None:
    """Return the split that a folder is named after; None if it is not, or after several."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", folder)  # TrainImages
    words = [word.removesuffix("set") for word in re.findall(r"[^\W\d_]+", spaced.casefold())]
    kinds = [_KINDS[word] for word in words if word in _KINDS]
    if len(kinds) != 1:
        return None
    return SplitName(kinds[0], " ".join(word for word in words if word not in _KINDS and word not in _ADDED))


def is_hub_name(data: str) -> bool:
    """Return whether a data set is named as hf:NAME or hf:NAME:CONFIGURATION."""
    return data.startswith(HUB)


def is_saved(folder: Path) -> bool:
    """Return whether `save_to_disk` of the library `datasets` has written a folder, even if a file is missing in it."""
    splits, *of_table = (
        os.path.isfile(folder / name)  # noqa: PTH113 - Path's may raise
        for name in (SAVED_SPLITS, SAVED_STATE, SAVED_INFO)
    )
    return splits or all(of_table) or (any(of_table) and any(folder.glob("*.arrow")))


def left_by_programs(folder: str) -> bool:
    """Return whether file systems, network disks and other programs leave folders of this name."""
    return folder.casefold() in _LEFT_BY_PROGRAMS


def is_ours(files: Iterable[str], folders: Iterable[str]) -> bool:
    """Return whether a folder with these files and folders is that of a run, or a packed one."""
    names, below = frozenset(files), frozenset(folders)
    return (
        not names.isdisjoint({"pack.json", "unfinished.json"})
        or ("config.yaml" in names and not names.isdisjoint({"config.json", "metrics.jsonl"}))
        or (".lock" in names and "log" in below)
    )


def class_name(folder: str) -> str:
    """Return the name of a class folder, the same in every locale and on file systems that decompose letters."""
    return normalized(os.fsencode(folder).decode("utf-8", "surrogateescape"))


def normalized(name: str) -> str:
    """Return a name with composed letters (Unicode's NFC)."""
    return unicodedata.normalize("NFC", name)


def refuse_alike(folders: Iterable[str], root: str) -> None:
    """Refuse class folders whose names people read as the same.

    Raises:
        UserError: two names differ only in case, spaces around them, or invisible characters.
    """
    seen: dict[str, str] = {}
    for folder in folders:
        other = seen.setdefault(_as_read(class_name(folder)), folder)
        if other != folder:
            raise UserError(
                f"{root} holds the classes {other!r} and {folder!r}, whose names read the same",
                "rename one of them, or put their pictures into one folder",
            )


def labels_of(names: Iterable[str], classes: Sequence[str], root: str, owner: str) -> list[int]:
    """Return the index in the owner's classes of each class that `root` holds.

    Raises:
        UserError: the owner lacks one, or has it with other capitals, spaces or invisible characters.
    """
    labels = {normalized(name): label for label, name in enumerate(classes)}
    read = {_as_read(name): name for name in classes}
    for name in names:
        if name not in labels and (known := read.get(_as_read(name))):
            raise UserError(
                f"{root} holds the class {name!r}, which {owner} has as {known!r}", "give both the same name"
            )
        if name not in labels:
            raise UserError(
                f"{root} holds the class {name}, which {owner} lacks", f"add it there, or leave it out of {root}"
            )
    return [labels[name] for name in names]


def _as_read(name: str) -> str:
    visible = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) not in _INVISIBLE)
    return unicodedata.normalize("NFC", visible.casefold()).strip()
