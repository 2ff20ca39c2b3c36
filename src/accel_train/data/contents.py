"""What a data set contains: its classes, and the counts and a fingerprint of each split; how two data sets differ."""

import hashlib
import json
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator

from accel_train.data.sources.base import DataSet, Source, Subset
from accel_train.data.sources.names import class_name
from accel_train.errors import UserError, shown
from accel_train.loggers.text import quantity
from accel_train.system.records import Count, Text

Files = Mapping[str, Mapping[str, int]]
"""Bytes of each file by its path, by split; the path begins with the class."""
_MOST_LISTED = 4


@dataclass(frozen=True)
class SplitContents:
    """What a split contains; `--limit` does not change it."""

    images: Count
    counts: tuple[Count, ...] | None
    """Images of each class; None if the source does not tell."""
    fingerprint: Text | None
    """Differs if the images differ; None if the source has none."""


@dataclass(frozen=True)
class Contents:
    """What a data set contains, wherever it is stored."""

    classes: tuple[Text, ...]
    splits: Mapping[Text, SplitContents]

    def as_record(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        record: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return record

    @property
    def digest(self) -> int:
        """63 bits of a hash of everything here."""
        return int.from_bytes(hashlib.sha256(json.dumps(asdict(self)).encode()).digest()[:8]) >> 1

    def surely_equals(self, other: "Contents") -> bool:
        """Return whether both contain the same images; False if a source without a fingerprint cannot tell."""
        return self == other and all(split.fingerprint is not None for split in self.splits.values())


def consistent(contents: Contents) -> Contents:
    """Return contents that a file holds, if they can be those of a run's data.

    Raises:
        ValueError: they cannot.
    """
    if set(contents.splits) != {"train", "val"}:
        raise ValueError(f"the splits are {', '.join(map(shown, contents.splits)) or 'none'} instead of train and val")
    for split, of in contents.splits.items():
        if not _counts_fit(of, len(contents.classes)):
            raise ValueError(f"the counts of {split} are not those of {quantity(of.images, 'image')} in its classes")
    return contents


StoredContents = Annotated[Contents, AfterValidator(consistent)]
"""The contents of a run's data in a file."""


@runtime_checkable
class _HasFiles(Protocol):
    sizes: NDArray[np.int64]

    def labelled_paths(self) -> tuple[str, ...]: ...


def contents_of(data: DataSet) -> Contents:
    """Return the contents of both splits; a user's source may name its classes by numbers."""
    classes = tuple(map(str, data.train.classes))
    return Contents(classes, {"train": split_contents(data.train), "val": split_contents(data.val)})


def split_contents(source: Source) -> SplitContents:
    """Return the contents of a source; of a subset's, those of the whole.

    Raises:
        UserError: a user's own source counts its images wrongly.
    """
    if isinstance(source, Subset):
        return split_contents(source.source)
    counts, fingerprint = getattr(source, "counts", None), getattr(source, "fingerprint", None)
    try:
        found = SplitContents(
            images=len(source),
            counts=None if counts is None else tuple(map(operator.index, counts)),
            fingerprint=None if fingerprint is None else str(fingerprint),
        )
    except TypeError:
        fits = False
    else:
        fits = _counts_fit(found, len(source.classes))
    if not fits:
        raise UserError(
            f"the counts of {quantity(len(source), 'image')} in {len(source.classes):,} classes are {shown(counts)}",
            "let `counts` be the number of images of each class",
        )
    return found


def _counts_fit(split: SplitContents, classes: int) -> bool:
    counts = split.counts
    return counts is None or (len(counts) == classes and sum(counts) == split.images and all(n >= 0 for n in counts))


def files_of(**sources: Source) -> Files | None:
    """Return the files of sources, given by split; None if their images are not read from files."""
    wholes = {split: source.source if isinstance(source, Subset) else source for split, source in sources.items()}
    listed = {split: source for split, source in wholes.items() if isinstance(source, _HasFiles)}
    if len(listed) < len(wholes):
        return None
    return {split: dict(zip(s.labelled_paths(), s.sizes.tolist(), strict=True)) for split, s in listed.items()}


def also_in(stored: Mapping[str, int], files: Mapping[str, int]) -> set[str]:
    """Return the paths of those files, given with their bytes, that are among stored ones, too.

    Class and size are equal, and the rest of the path as far as both tell it: a file of labels may give paths below
    another folder, as in class/class/a.png.
    """
    whole = {(*_class_and_rest(path), size) for path, size in stored.items()}
    ends = {(name, end, size) for name, rest, size in whole for end in _ends(rest)}

    def is_stored(name: str, rest: str, size: int) -> bool:
        return (name, rest, size) in ends or any((name, end, size) in whole for end in _ends(rest))

    return {path for path, size in files.items() if is_stored(*_class_and_rest(path), size)}


def _class_and_rest(path: str) -> tuple[str, str]:
    name, _, rest = path.partition("/")
    return name, rest


def _ends(path: str) -> Iterator[str]:
    """Yield a path, and what remains of it without its first folder, without its first two, and so on."""
    yield path
    while "/" in path:
        path = path.partition("/")[2]
        yield path


def changes(before: Contents, now: Contents, files_before: Files | None, files_now: Files | None) -> str:
    """Return what has changed, in a few words; an empty text if nothing has."""
    found = list(_changes(before, now, files_before, files_now))
    more = len(found) - _MOST_LISTED
    return ", ".join(found[:_MOST_LISTED]) + f", and {quantity(more, 'more change')}" * (more > 0)


def first_difference(before: Contents, now: Contents, files_before: Files | None, files_now: Files | None) -> str:
    """Return the first difference, with the name of the file if there is one; an empty text if there is none."""
    if before.classes == now.classes and files_before and files_now:
        for split in files_before:
            was, found = files_before[split], files_now[split]
            if different := was.items() ^ found.items():
                path, _ = min(different)
                return _file_difference(f"{split}/{path}", was.get(path), found.get(path))
    return next(_changes(before, now, files_before, files_now), "")


def _file_difference(path: str, was: int | None, found: int | None) -> str:
    if found is None:
        return f"{path} is missing"
    return f"{path} is new" if was is None else f"{path} has {quantity(found, 'byte')} instead of {was:,}"


def _changes(before: Contents, now: Contents, files_before: Files | None, files_now: Files | None) -> Iterator[str]:
    yield from (f"class {name} is missing" for name in before.classes if name not in now.classes)
    yield from (f"class {name} is new" for name in now.classes if name not in before.classes)
    if before.classes != now.classes and sorted(before.classes) == sorted(now.classes):
        yield f"the classes are {_some(now.classes)} instead of {_some(before.classes)}"
    for split, was in before.splits.items():
        found = now.splits[split]
        if was == found:
            continue
        if files_before and files_now:
            described = list(_file_changes(split, files_before[split], files_now[split], before, now))
        else:
            described = list(_count_changes(split, before, now))
        if not described and before.classes == now.classes:
            described = [f"{split} contains other images"]
        yield from described


def _file_changes(
    split: str, was: Mapping[str, int], found: Mapping[str, int], before: Contents, now: Contents
) -> Iterator[str]:
    """Yield the changes in each class that both have."""
    new, missing = (Counter(map(_class_of, paths)) for paths in (found.keys() - was.keys(), was.keys() - found.keys()))
    resized = Counter(_class_of(path) for path in was.keys() & found.keys() if was[path] != found[path])
    for name in (name for name in before.classes if name in now.classes):
        if new[name] or missing[name]:
            counts = [f"+{new[name]:,}"] * bool(new[name]) + [f"−{missing[name]:,}"] * bool(missing[name])
            files = "file" if new[name] + missing[name] == 1 else "files"
            yield f"{' '.join(counts)} {files} in {split}/{name}"
        if resized[name]:
            yield f"{quantity(resized[name], 'file')} of another size in {split}/{name}"


def _count_changes(split: str, before: Contents, now: Contents) -> Iterator[str]:
    was, found = before.splits[split], now.splits[split]
    if was.counts and found.counts:
        counts = dict(zip(now.classes, found.counts, strict=True))
        for name, count in zip(before.classes, was.counts, strict=True):
            if counts.get(name, count) != count:
                yield f"{split}/{name} contains {quantity(counts[name], 'image')} instead of {count:,}"
    elif was.images != found.images:
        yield f"{split} contains {quantity(found.images, 'image')} instead of {was.images:,}"


def _class_of(path: str) -> str:
    return class_name(path.partition("/")[0])


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_MOST_LISTED]) + ", …" * (len(names) > _MOST_LISTED)
