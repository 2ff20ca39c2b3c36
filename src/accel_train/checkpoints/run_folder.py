"""Names, makes, writes and reads the folder of a run."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from accel_train.errors import UserError
from accel_train.system.atomic_files import write_file

CONFIG, DESCRIPTION, METRICS, CHECKPOINTS, LOGS = "config.yaml", "config.json", "metrics.jsonl", "checkpoints", "log"
PROFILE = "profile"
WEIGHTS = {"last": "model.safetensors", "best": "best.safetensors"}
LOCK = ".lock"
_FORMAT = 1


@dataclass(frozen=True)
class Description:
    """What must be known of a model to use its weights."""

    model: str
    classes: tuple[str, ...]
    channels: int
    """That the model takes."""
    data_channels: int
    """Of the images; fewer than `channels` means that grey is repeated."""
    data_size: int
    image_size: int
    """Height and width that the model sees, pixels."""
    mean: tuple[float, ...]
    """Of each channel of the images, as a share of full white; likewise `std`."""
    std: tuple[float, ...]
    matches: tuple[str, ...]
    """How images and model were made to fit each other, a sentence each."""


def check_place(folder: Path) -> Path:
    """Return the folder if a run can write there, without making it.

    Raises:
        UserError: it cannot, or the folder holds something that no run of ours has left.
    """
    try:
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        strange = [e.name for e in folder.iterdir() if not _is_ours(e.name)] if folder.is_dir() else []
    except PermissionError as error:
        raise UserError(
            f"cannot look at the run folder {folder}: no permission for {error.filename}", "give another --output"
        ) from None
    if nearest == folder and not folder.is_dir():
        raise UserError(f"--output {folder} is a file", "give a folder")
    if not nearest.is_dir():
        raise UserError(f"cannot make the run folder {folder}: {nearest} is a file", "give another --output")
    if strange:
        raise UserError(
            f"--output {folder} is not empty, and {min(strange)} in it is no run's", "give a new or empty folder"
        )
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise UserError(f"cannot write the run folder {folder}: no permission in {nearest}", "give another --output")
    return folder


def holds_a_run(folder: Path) -> bool:
    """Tell whether a run has begun in a folder: its config is the first file that it writes."""
    return (folder / CONFIG).is_file()


def weights_file(path: Path) -> Path:
    """Return the file of a run's last weights; a path that is no folder is itself such a file."""
    return path / WEIGHTS["last"] if path.is_dir() else path


def is_finished(folder: Path) -> bool:
    """Tell whether the run in a folder has come to its end: its last weights are the last file that it writes."""
    return (folder / WEIGHTS["last"]).is_file()


def numbered(name: str) -> tuple[Path | None, Path]:
    """Return the latest folder under runs/ of this name, if there is one, and the next free one."""
    number = 1
    while (folder := Path("runs") / f"{name}_{number:03d}").exists():
        number += 1
    return (Path("runs") / f"{name}_{number - 1:03d}" if number > 1 else None), folder


def _is_ours(name: str) -> bool:
    own = (CONFIG, DESCRIPTION, METRICS, CHECKPOINTS, LOGS, LOCK, PROFILE, *WEIGHTS.values())
    return name in own or name.startswith(".tmp_")


def make(folder: Path) -> None:
    """Make the folder, unless another process of the run has.

    Raises:
        UserError: the system refuses.
    """
    try:
        (folder / LOGS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the run folder {folder}: {error.strerror}", "give another --output") from None


def config_text(values: Mapping[str, Any], origins: Mapping[str, str], placement: frozenset[str]) -> str:
    """Return a config as YAML, each value's origin behind it.

    What only places the run on hardware is a comment, so that the file describes the same run anywhere.
    """
    lines = ["# Start this run again, on any hardware: accel_train train --config FILE"]
    for name, value in values.items():
        plain = str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
        style = '"' if len(str(plain).splitlines()) > 1 else None  # the only one that keeps to its line
        listed = yaml.safe_dump([plain], default_flow_style=True, default_style=style, allow_unicode=True, width=10_000)
        text = listed.strip()[1:-1]
        lines.append(f"{'# ' if name in placement else ''}{name}: {text}  # {origins.get(name, 'default')}")
    return "\n".join(lines) + "\n"


def write(folder: Path, config: str, description: Description) -> None:
    """Write what identifies the run; a name that is no UTF-8 is escaped, and JSON reads it back as it was."""
    record = {"format": _FORMAT, **asdict(description)}
    text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    write_file(folder / DESCRIPTION, text.encode("utf-8", errors="backslashreplace"))
    write_file(folder / CONFIG, config.encode("utf-8", errors="backslashreplace"))


def read_description(folder: Path) -> Description:
    """Read what identifies a run's model.

    Raises:
        UserError: the folder is no run's, or of a newer version.
    """
    path = folder / DESCRIPTION
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        written = record.pop("format")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in record.items()
        }
        if written == _FORMAT:
            return Description(**values)
    except OSError as error:
        raise UserError(
            f"{folder} is not the folder of a run: {error.strerror}: {path}", "give one of runs/*"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {error}", "give the folder of another run") from None
    raise UserError(f"{path} has format {written}, this version reads {_FORMAT}", "update accel_train")
