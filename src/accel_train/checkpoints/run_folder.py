"""The folder of a run: its name, its files and the description of its model."""

import gzip
import json
import math
import os
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from accel_train.data.contents import Contents, Files, SplitContents
from accel_train.errors import UserError
from accel_train.system.atomic_files import is_partial, write_file

CONFIG, DESCRIPTION, METRICS, CHECKPOINTS, LOGS = "config.yaml", "config.json", "metrics.jsonl", "checkpoints", "log"
DATA_FILES = "data_files.json.gz"
PROFILE = "profile"
WEIGHTS = {"last": "model.safetensors", "best": "best.safetensors"}
LOCK = ".lock"
_FILES = (CONFIG, DESCRIPTION, METRICS, DATA_FILES, *WEIGHTS.values())
FILES = "|".join(map(re.escape, _FILES))
"""Pattern of the files that are written as a whole."""
_FORMAT = 2
_SIZES = ("channels", "data_channels", "data_size", "image_size")


@dataclass(frozen=True)
class Description:
    """Everything needed to use the weights of a model."""

    model: str
    classes: tuple[str, ...]
    channels: int
    """Input channels of the model."""
    data_channels: int
    """Channels of the images; fewer than `channels` if grey images are repeated."""
    data_size: int
    image_size: int
    """Height and width of the model's input, pixels."""
    mean: tuple[float, ...]
    """Mean of each channel of the images, as a fraction of full white; likewise `std`."""
    std: tuple[float, ...]
    matches: tuple[str, ...]
    """How images and model were adapted to each other, one sentence each."""
    splits: Mapping[str, SplitContents]
    """What the data contained."""

    @property
    def contents(self) -> Contents:
        return Contents(self.classes, self.splits)

    def check(self) -> None:
        """Raise ValueError with the first value that cannot be right: a file may have been edited."""
        for name in _SIZES:
            size = getattr(self, name)
            if type(size) is not int or size < 1:
                raise ValueError(f"{name} is {size!r}")
        if not (len(self.mean) == len(self.std) == self.data_channels):
            raise ValueError(f"mean and std have {len(self.mean)} and {len(self.std)} values")
        for name, smallest in (("mean", -math.inf), ("std", 0.0)):
            for value in getattr(self, name):
                if not isinstance(value, int | float) or not smallest < value < math.inf:
                    raise ValueError(f"{name} contains {value!r}")
        if not isinstance(self.model, str) or not all(isinstance(name, str) for name in self.classes):
            raise ValueError(f"model is {self.model!r} and classes are {self.classes!r}")


def check_destination(folder: Path) -> Path:
    """Return the folder if a run can write there, without creating it.

    Raises:
        UserError: a run cannot write there, or the folder contains a file that is not a run's.
    """
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        foreign = [e.name for e in folder.iterdir() if not _is_ours(e.name)] if folder.is_dir() else []
    except PermissionError as error:
        raise UserError(
            f"cannot read the run folder {folder}: no permission for {error.filename}", "give another --output"
        ) from None
    if nearest == folder and not folder.is_dir():
        raise UserError(f"--output {folder} is a file", "give a folder")
    if not nearest.is_dir():
        raise UserError(f"cannot create the run folder {folder}: {nearest} is a file", "give another --output")
    if foreign:
        raise UserError(
            f"--output {folder} is not empty: {min(foreign)} does not belong to a run", "give a new or empty folder"
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"cannot write to the run folder {folder}: no permission in {nearest}", "give another --output")
    return folder


def contains_run(folder: Path) -> bool:
    """Return whether a run has started in a folder: it writes its config before it trains."""
    return (folder / CONFIG).is_file()


def weights_file(path: Path) -> Path:
    """Return the file of a run's last weights, given its folder or that file."""
    return path / WEIGHTS["last"] if path.is_dir() else path


def is_finished(folder: Path) -> bool:
    """Return whether the run in a folder has finished: it writes its last weights at the end."""
    return (folder / WEIGHTS["last"]).is_file()


def numbered(name: str) -> tuple[Path | None, Path]:
    """Return the latest numbered folder of this name under runs/, if any, and the next free one."""
    number = 1
    while (folder := Path("runs") / f"{name}_{number:03d}").exists():
        number += 1
    return (Path("runs") / f"{name}_{number - 1:03d}" if number > 1 else None), folder


def _is_ours(name: str) -> bool:
    return name in (*_FILES, CHECKPOINTS, LOGS, LOCK, PROFILE) or is_partial(name, FILES)


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
        record = json.loads(path.read_text(encoding="utf-8"))
        written = record.pop("format")
        if written == _FORMAT:
            splits = Contents.from_record(record).splits
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
            }
            description = Description(**{**values, "splits": splits})
            description.check()
            return description
    except OSError as error:
        raise UserError(
            f"{folder} is not the folder of a run: {error.strerror}: {path}", "give one of runs/*"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {error}", "give the folder of another run") from None
    raise UserError(
        f"{path} has format {written}, this version reads {_FORMAT}", "use the version of accel_train that wrote it"
    )


def read_files(folder: Path) -> Files | None:
    """Read the files of a run's data; None if its images were not read from files, or the list is unreadable."""
    try:
        files: Files = json.loads(gzip.decompress((folder / DATA_FILES).read_bytes()))
    except (OSError, EOFError, ValueError, zlib.error):
        return None
    return files
