"""Opens a data set by its name."""

import difflib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from accel_train.config.import_string import call_function, is_function_name
from accel_train.data.packing.manifest import is_packed
from accel_train.data.packing.source import evaluation_packed, open_packed, packed_notes
from accel_train.data.sources.base import (
    DataSet,
    ItemSource,
    MemorySource,
    Request,
    Source,
    in_memory,
    one_process_at_a_time,
    pixel_statistics,
    spread,
)
from accel_train.data.sources.builtin import PUBLISHED
from accel_train.data.sources.folder import evaluation_folder, open_folder
from accel_train.errors import UserError
from accel_train.rng import make_key


def open_data(
    name: str, *, directory: Path | None, val_fraction: float | None, seed: int, limit: int | None
) -> DataSet:
    """Open a data set, downloading it if it must be; safe in several processes at once.

    Runs before the processes know each other, so that a long download meets no timeout of theirs.

    Raises:
        UserError: there is no such data set, it cannot be had, or its classes do not fit.
    """
    request = Request(name, directory, val_fraction, seed)
    kind, opener = _find(name)
    if val_fraction is not None and kind != "folder":
        raise UserError(f"--val-fraction has no effect on {name}, which has its own validation images", "leave it out")
    data = opener(request)
    return replace(data, train=spread(data.train, limit), val=spread(data.val, limit))


def open_for_evaluation(root: Path, classes: tuple[str, ...], owner: str) -> Source:
    """Open a folder of pictures, packed or not, labelled by the classes of `owner`: its val, if it has one, or all.

    Raises:
        UserError: it holds a class that the owner lacks, or no pictures.
    """
    return (evaluation_packed if is_packed(root) else evaluation_folder)(root, classes, owner)


def data_notes(name: str) -> tuple[str, ...]:
    """Return what the user of a data set should know of it, a sentence each."""
    return packed_notes(Path(name)) if is_packed(Path(name)) else ()


def _find(name: str) -> tuple[str, Callable[[Request], DataSet]]:
    if name in PUBLISHED:
        return name, PUBLISHED[name]
    if name.partition(":")[0] == "synthetic":
        return "synthetic", _synthetic
    if is_packed(Path(name)):
        return "folder", open_packed
    if Path(name).is_dir():
        return "folder", open_folder
    if is_function_name(name):
        return "module", _module
    close = difflib.get_close_matches(name, [*PUBLISHED, "synthetic"], n=1)
    raise UserError(
        f"--data {name}: neither a known data set nor a folder",
        f"did you mean {close[0]}?"
        if close
        else f"choose {', '.join(PUBLISHED)}, synthetic, a folder or my.module:function",
    )


def _synthetic(request: Request) -> DataSet:
    """Make noise of which each class is brighter in its own place, so that there is something to learn."""
    try:
        sizes = request.name.partition(":")[2]
        given = [int(part) for part in sizes.split(",")] if sizes else []
    except ValueError:
        given = [0]
    count, channels, height, width, classes = (*given, *(1280, 3, 32, 32, 10)[len(given) :])[:5]
    if len(given) > 5 or min(count, channels, height, width) < 1 or not 2 <= classes <= count:
        raise UserError(
            f"--data {request.name} is no size", "write synthetic:N,C,H,W,K, as in synthetic:1280,3,32,32,10"
        )

    def make(split: str, images: int) -> MemorySource:
        generator = torch.Generator().manual_seed(make_key("fake", split) >> 1)
        pixels = torch.randint(0, 128, (images, channels, height, width), dtype=torch.uint8, generator=generator)
        labels = torch.arange(images) % classes
        rows = torch.arange(height) * classes // height
        pixels += (labels[:, None] % height == rows).to(torch.uint8)[:, None, :, None] * 64
        return MemorySource(tuple(map(str, range(classes))), pixels, labels)

    return in_memory("synthetic", "made here", make("train", count), make("val", max(classes, count // 5)))


def _module(request: Request) -> DataSet:
    with one_process_at_a_time(request.cache):  # the function may download
        made = call_function(request.name, "--data", data_dir=request.directory, seed=request.seed)
    if not isinstance(made, tuple) or len(made) != 2:
        raise UserError(f"--data {request.name} returned no pair", "return (training data, validation data)")
    train, val = (_user_source(source, request.name) for source in made)
    return DataSet("module", f"from {request.name}", train, val, *pixel_statistics(train))


def _user_source(data: Any, name: str) -> Source:
    """Take a source as it is, and a map-style data set of (image, label) item by item."""
    if not hasattr(data, "classes") or not hasattr(data, "__len__"):
        raise UserError(
            f"--data {name}: {type(data).__name__} lacks classes or a length", "give it `classes`, its names"
        )
    if hasattr(data, "read"):
        source: Source = data
        return source
    return ItemSource(tuple(map(str, data.classes)), data)
