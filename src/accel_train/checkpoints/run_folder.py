"""The folder of a run: where it is, what a run may write there, and the description of its model."""

import gzip
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field

from accel_train.data.contents import Contents, Files, SplitContents, consistent
from accel_train.errors import UserError
from accel_train.history.files import (
    BAD_IMAGES,
    CHECKPOINTS,
    CONFIG,
    DATA_FILES,
    DESCRIPTION,
    EXPORT,
    LOCK,
    LOGS,
    METRICS,
    METRICS_CSV,
    PREDICTIONS,
    PROFILE,
    REPORT,
    TENSORBOARD,
    TRACKED_AS,
    WANDB,
    WEIGHTS,
)
from accel_train.loggers.text import quoted
from accel_train.models.base import Interpolation, Preprocessing
from accel_train.system.atomic_files import is_partial, write_file
from accel_train.system.records import Number, Text, read_record
from accel_train.system.regular_files import kind_of

_FILES = (
    *(CONFIG, DESCRIPTION, METRICS, DATA_FILES, BAD_IMAGES, PREDICTIONS, REPORT, *WEIGHTS.values()),
    *(METRICS_CSV, TRACKED_AS),
)
FILES = "|".join(map(re.escape, _FILES))
"""Pattern of the files that are written as a whole."""
_FOLDERS = (CHECKPOINTS, LOGS, PROFILE, EXPORT, TENSORBOARD, WANDB)
_FORMAT = 3

Size = Annotated[int, Field(strict=True, ge=1, le=2**16)]
Channels = Annotated[int, Field(strict=True, ge=1, le=2**10)]
Deviation = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Description:
    """Everything needed to use the weights of a model."""

    model: Text
    classes: tuple[Text, ...]
    channels: Channels
    """Input channels of the model."""
    data_channels: Channels
    """Channels of the images; fewer than `channels` if grey images are repeated."""
    data_size: Size
    image_size: Size
    """Height and width of the model's input, pixels."""
    adapted_to: Size
    """Image size to which the architecture is adapted, pixels: that of weights it has started from, or its input's."""
    interpolation: Interpolation
    """How images are resized."""
    mean: tuple[Number, ...]
    """Mean of each channel of the images, as a fraction of full white; likewise `std`. Those of the model's channels
    if they differ although the images are grey."""
    std: tuple[Deviation, ...]
    matches: tuple[Text, ...]
    """How images and model were adapted to each other, one sentence each."""
    splits: Mapping[Text, SplitContents]
    """What the data contained."""

    @property
    def contents(self) -> Contents:
        return Contents(self.classes, self.splits)

    @property
    def preprocessing(self) -> Preprocessing:
        """How images are prepared for the model."""
        return Preprocessing(self.image_size, self.mean, self.std, self.interpolation, adapted_to=self.adapted_to)

    def __post_init__(self) -> None:
        """Raise ValueError if values contradict each other: a file may have been edited."""
        fit = len(self.mean) == len(self.std) and len(self.mean) in (self.data_channels, self.channels)
        if not fit:
            raise ValueError(
                f"mean and std have {len(self.mean)} and {len(self.std)} values for {self.data_channels} channels"
            )
        consistent(self.contents)


def check_destination(folder: Path) -> Path:
    """Return the folder if a run can write there, without creating it.

    Raises:
        UserError: a run cannot write there, or the folder contains a file that is not a run's.
    """
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        found = {path.name: kind_of(path) for path in folder.iterdir()} if folder.is_dir() else {}
    except OSError as error:
        reason = f"no permission for {error.filename}" if isinstance(error, PermissionError) else error.strerror
        raise UserError(f"cannot read the run folder {folder}: {reason}", "give another --output") from None
    if nearest == folder and not folder.is_dir():
        raise UserError(f"--output {quoted(folder)} is a file", "give a folder")
    if not nearest.is_dir():
        raise UserError(f"cannot create the run folder {folder}: {nearest} is a file", "give another --output")
    if foreign := [name for name in found if not _is_ours(name)]:
        raise UserError(
            f"--output {quoted(folder)} is not empty: {min(foreign)} does not belong to a run",
            "give a new or empty folder",
        )
    for name, kind in found.items():  # a run writes nothing outside its folder, and removes nothing there
        if not is_partial(name, FILES) and kind != (ours := "a folder" if name in _FOLDERS else "a file"):
            raise UserError(
                f"{folder / name} is {kind}, not {ours} of a run",
                "remove it, or give another --output; only that folder itself may be a link",
            )
    for place in (nearest, *(folder / name for name in _FOLDERS if name in found)):
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=True):
            raise UserError(
                f"cannot write to the run folder {folder}: no permission in {place}", "give another --output"
            )
    return folder


def contains_run(folder: Path) -> bool:
    """Return whether a run has started in a folder: it writes its config before it trains."""
    return (folder / CONFIG).is_file()


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder has finished: it writes its last weights at the end."""
    return (folder / WEIGHTS["last"]).is_file()


def numbered(name: str) -> tuple[list[Path], Path]:
    """Return the numbered folders of this name under runs/, the latest first, and the next free one."""
    runs, numbers = Path("runs"), []
    with suppress(OSError):  # there is none yet, or a run cannot write there either
        matches = (re.fullmatch(rf"{re.escape(name)}_([0-9]{{3,}})", path.name) for path in runs.iterdir())
        numbers = sorted((int(match[1]) for match in matches if match), reverse=True)
    found = [runs / f"{name}_{number:03d}" for number in numbers]
    return found, runs / f"{name}_{numbers[0] + 1 if numbers else 1:03d}"


def _is_ours(name: str) -> bool:
    return name in (*_FILES, *_FOLDERS, LOCK) or is_partial(name, FILES)


def make(folder: Path, *, new: bool = False) -> None:
    """Create the folder; with `new`, it must not exist.

    Raises:
        UserError: the folder cannot be created.
        FileExistsError: `new`, but it exists.
    """
    try:
        folder.mkdir(parents=True, exist_ok=not new)
    except OSError as error:
        if new and isinstance(error, FileExistsError) and folder.exists():
            raise
        raise UserError(f"cannot create the run folder {folder}: {error.strerror}", "give another --output") from None


def remove_empty(folder: Path, *parents: Path) -> None:
    """Remove the folder of a run that has not begun, its lock and empty parents; leave what contains anything else."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
        for path in (folder, *parents):
            path.rmdir()


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return config values as YAML and JSON store them: a path as a string, a tuple as a list."""
    return {
        name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
    }


def config_text(values: Mapping[str, Any], origins: Mapping[str, str], placement: frozenset[str]) -> str:
    """Return a config as YAML, with the origin of each value as a comment.

    Fields in `placement` are comments too, so that the file starts the same run on any hardware.
    """
    lines = ["# Start this run again, on any hardware: accel_train train --config FILE"]
    for name, plain in plain_values(values).items():
        style = '"' if len(str(plain).splitlines()) > 1 else None  # the only style that stays on one line
        listed = yaml.safe_dump([plain], default_flow_style=True, default_style=style, allow_unicode=True, width=10_000)
        text = listed.strip()[1:-1]
        lines.append(f"{'# ' if name in placement else ''}{name}: {text}  # {origins.get(name, 'default')}")
    return "\n".join(lines) + "\n"


def write(folder: Path, config: str, description: Description, files: Files | None) -> None:
    """Write description, files of the data and config; escape names that are not UTF-8, which JSON restores."""
    if files is not None:
        write_file(folder / DATA_FILES, gzip.compress(json.dumps(files).encode(), compresslevel=1, mtime=0))
    record = {"format": _FORMAT, **asdict(description)}
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    write_file(folder / DESCRIPTION, text.encode("utf-8", errors="backslashreplace"))
    write_file(folder / CONFIG, config.encode("utf-8", errors="backslashreplace"))


def read_description(folder: Path) -> Description:
    """Read the description of a run's model.

    Raises:
        UserError: the folder is not a run's, or the file is damaged or of a newer version.
    """
    path = folder / DESCRIPTION
    try:
        return read_record(path, Description, _FORMAT)
    except OSError as error:
        raise UserError(
            f"{folder} is not the folder of a run: {error.strerror}: {path}", "give one of runs/*"
        ) from None
    except ValueError as error:
        raise UserError(
            f"{path} {error}", "give the folder of another run, or use the version of accel_train that wrote it"
        ) from None
