"""Pictures that cannot be read: found before training, they end the run or are left out of it."""

import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from accel_train.config.options import TrainConfig
from accel_train.data.bad_images import BadImage, Checked, Pictures, check_pictures, header_problems, workers_for
from accel_train.data.contents import Contents, contents_of
from accel_train.data.sources.base import DataSet, Source, Subset, spread
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError
from accel_train.history.files import BAD_IMAGES
from accel_train.loggers.text import quantity, quoted, rough_duration, write_to_stderr
from accel_train.run.same_data import refuse_other_ranks
from accel_train.system.atomic_files import write_file
from accel_train.system.regular_files import read_regular

_SECONDS_PER_ROUND = 10.0
"""Far less than the shortest useful --timeout."""


@dataclass(frozen=True)
class CheckedData:
    """The images of a run that can be read."""

    data: DataSet
    contents: Contents
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Reasons by name of the file: SPLIT/PATH, on one line."""


def check_images(data: DataSet, asked: TrainConfig, processes: Processes) -> CheckedData:
    """Collective: leave out the pictures that cannot be read, or report those whose first bytes are wrong.

    Each process checks its share of the files, and all leave out the same.

    Raises:
        UserError: processes see other data, there are bad pictures that are not to be left out, or too few others.
    """
    contents = contents_of(data)
    refuse_other_ranks(processes, contents, train=data.train, val=data.val)
    skip, sources = asked.on_bad_image == "skip", _encoded_images(data)
    if sources is None:
        if skip:
            raise UserError(
                f"--on-bad-image skip has no effect on {asked.data}: its images are in no files", "leave it out"
            )
        return CheckedData(data, contents)
    pictures = Pictures(list(sources.values()))
    own = range(processes.rank, len(pictures), processes.count)
    if skip:
        bad = _decode_all(pictures, own, asked.max_pixels, processes)
    else:
        bad, _ = _everyones(header_problems(pictures, own, asked.max_pixels), 0, processes)
    if not bad:
        return CheckedData(data, contents)
    if not skip:
        raise _refusal(pictures, bad, asked.data)
    names = [name for split, source in sources.items() for name in _names(split, source)]
    left_out = {names[index]: reason for index, reason in bad.items()}
    note = (
        f"{len(bad):,} of {quantity(len(pictures), 'picture')} cannot be read and are left out: {BAD_IMAGES} lists them"
    )
    data = replace(without(data, left_out, asked.limit), notes=(*data.notes, note))
    return CheckedData(data, contents_of(data), left_out)


def without(data: DataSet, left_out: Collection[str], limit: int | None) -> DataSet:
    """Return a data set without some pictures, named as in the list; `limit` is applied to the others.

    Raises:
        UserError: a class has no other training pictures, or there are no others to validate on.
    """
    sources = _encoded_images(data)
    if not left_out or sources is None:
        return data
    kept = {}
    for split, source in sources.items():
        ids = [image_id for image_id, name in enumerate(_names(split, source)) if name not in left_out]
        kept[split] = source.only(np.array(ids, np.int64))
    train, val = kept["train"], kept["val"]
    for label in np.flatnonzero(train.counts == 0).tolist():
        raise UserError(
            f"no training picture of the class {train.classes[label]} can be read", "repair them, or remove the class"
        )
    if not len(val):
        raise UserError("no validation picture can be read", "repair or replace them")
    return replace(data, train=spread(train, limit), val=spread(val, limit))


def write_bad_images(folder: Path, left_out: Mapping[str, str]) -> None:
    """List the files that a run has left out, with the reasons; none if there are none."""
    lines = [f"{name}\t{_escaped(reason)}\n" for name, reason in left_out.items()]
    if lines:
        write_file(folder / BAD_IMAGES, "".join(lines).encode("utf-8", "surrogateescape"))


def read_bad_images(folder: Path) -> frozenset[str]:
    """Read the names of the files that a run has left out.

    Raises:
        UserError: the list cannot be read.
    """
    path = folder / BAD_IMAGES
    try:
        lines = read_regular(path).decode("utf-8", "surrogateescape").split("\n")
    except FileNotFoundError:
        return frozenset()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}", "make it readable") from None
    return frozenset(line.partition("\t")[0] for line in lines if line)


def _encoded_images(data: DataSet) -> dict[str, FolderSource | TableSource] | None:
    """Return the encoded images of both splits, whatever --limit; None if they are not encoded."""
    found: dict[str, FolderSource | TableSource] = {}
    for split, source in (("train", data.train), ("val", data.val)):
        whole: Source = source.source if isinstance(source, Subset) else source
        if not isinstance(whole, FolderSource | TableSource):
            return None
        found[split] = whole
    return found


def _names(split: str, source: FolderSource | TableSource) -> list[str]:
    """Return the names of images as the list has them."""
    parts = source.paths if isinstance(source, FolderSource) else source.rows.tolist()
    return [_escaped(f"{split}/{part}") for part in parts]


def _decode_all(pictures: Pictures, own: range, most_pixels: int, processes: Processes) -> dict[int, str]:
    """Collective: decode the pictures, each process its own; return the reasons of bad ones by index, in order.

    Processes meet in rounds: a fast one would else wait for a slow one longer than --timeout allows.
    """
    checking = check_pictures(pictures, own, most_pixels, workers_for(len(own), share_of_cores()))
    bad: dict[int, str] = {}
    done, began = 0, time.monotonic()
    while done < len(pictures):
        parts = list(_of_one_round(checking))
        found = (image for part in parts for image in part.bad)
        more, checked = _everyones(found, sum(len(part.sizes) for part in parts), processes)
        bad, done = bad | more, done + checked
        if processes.is_main and done < len(pictures):
            left = rough_duration((time.monotonic() - began) * (len(pictures) - done) / max(1, done))
            progress = f"{done:,} of {quantity(len(pictures), 'picture')}, {left} left"
            write_to_stderr(f"checked {progress} (--on-bad-image skip)\n")
    return dict(sorted(bad.items()))


def _of_one_round(checking: Iterator[Checked]) -> Iterator[Checked]:
    end = time.monotonic() + _SECONDS_PER_ROUND
    for part in checking:
        yield part
        if time.monotonic() > end:
            return


def _everyones(found: Iterable[BadImage], checked: int, processes: Processes) -> tuple[dict[int, str], int]:
    """Collective: return the reasons by index, in order, and how many pictures all processes have checked."""
    own = [(image.index, image.reason) for image in found]
    texts = process_group.exchange_texts(processes.group, json.dumps((own, checked)))
    everyones = [json.loads(text) for text in texts]
    bad = sorted((index, reason) for images, _ in everyones for index, reason in images)
    return dict(bad), sum(count for _, count in everyones)


def _refusal(pictures: Pictures, bad: Mapping[int, str], data: str) -> UserError:
    index, reason = next(iter(bad.items()))
    first = f"{pictures.name(index)}: {reason}"
    if len(bad) == 1:
        return UserError(
            f"cannot read the picture {first}",
            "repair or remove it, or leave it out with --on-bad-image skip",
        )
    return UserError(
        f"{len(bad):,} of {quantity(len(pictures), 'picture')} cannot be read, such as {first}",
        f"`accel_train check {quoted(data)}` lists them: repair or remove them, "
        "or leave them out with --on-bad-image skip",
    )


def _escaped(text: str) -> str:
    """Return a text on one line."""
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")
