"""The configuration of a run with origins, and how to start it again."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accel_train.config.import_string import is_function_name
from accel_train.events import DataRecord, HardwareRecord
from accel_train.history.config_file import Setting
from accel_train.history.files import CONFIG
from accel_train.history.run import RunHistory
from accel_train.loggers.text import option_value, quantity
from accel_train.report.started import Started


@dataclass(frozen=True)
class Option:
    """An option of the run."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True)
class Options:
    """All options: those that were given, or follow from data and model, and all others."""

    chosen: tuple[Option, ...]
    others: tuple[Option, ...]
    """Left at their defaults, or parts of another option."""


Row = tuple[str, str]
"""A label and a text."""


def options(settings: Mapping[str, Setting]) -> Options:
    """Return the options of a run, in the order of the help."""
    rows = [
        Option("--" + name.replace("_", "-"), _text(setting.value), setting.origin)
        for name, setting in settings.items()
        if setting.value is not None
    ]
    others = [row for row in rows if row.origin == "default" or row.origin.startswith(("default, in ", "--"))]
    return Options(tuple(row for row in rows if row not in others), tuple(others))


def commands(history: RunHistory, started: Started | None) -> list[Row]:
    """Return the command that started the run, and the one that starts it on any hardware."""
    again = shlex.join(["accel_train", "train", "--config", str(history.folder / CONFIG)])
    as_started = [("As it was started", started.software.command)] if started and started.software else []
    return [*as_started, ("On any hardware", again)]


def next_commands(history: RunHistory) -> list[Row]:
    """Return what can be done with the model, and the commands for that."""
    run, model = shlex.quote(str(history.folder)), str(history.config.get("model"))
    own = f" --model {model}" if is_function_name(model) else ""
    return [
        ("Classify new pictures", f"accel_train predict {run}{own} PICTURES"),
        ("Evaluate on other data", f"accel_train evaluate {run}{own} --data FOLDER"),
        ("Use it without accel_train", f"accel_train export {run}{own} --format onnx"),
        ("Compare it with another run", f"accel_train compare {run} OTHER_RUN"),
    ]


def details(started: Started) -> list[Row]:
    """Return hardware, software and data of a run."""
    hardware, software, data = started.hardware, started.software, started.data
    identity = [(name, value) for name, value in hardware.identity.items() if name not in ("device", "threads")]
    versions = software.versions.items() if software else ()
    known = [
        ("Processes", _processes(hardware)),
        *identity,
        ("Precision", hardware.precision),
        ("Versions", ", ".join(f"{name} {value}" for name, value in versions)),
        ("Commit", software.commit if software else ""),
        ("Seed", str(started.plan.seed)),
        ("Data", _data(data)),
        *_fingerprints(data),
        ("Augmentation", data.augment),
        *(("Images and model", match) for match in started.model.matches),
    ]
    return [(label[0].upper() + label[1:], text) for label, text in known if text]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else option_value(value)


def _processes(hardware: HardwareRecord) -> str:
    processes = quantity(hardware.world_size, "process", "processes")
    several = f", {hardware.strategy} over {hardware.backend}" if hardware.world_size > 1 else ""
    threads = quantity(hardware.threads, "thread") + " each" * (hardware.world_size > 1)
    return f"{processes} × {hardware.device}{several}, {threads}, started by {hardware.launched_by}"


def _data(data: DataRecord) -> str:
    images = f"{data.train_images:,} training and {data.val_images:,} validation images"
    return f"{data.data} {data.origin}".strip() + f": {images} of {' × '.join(map(str, data.shape))}"


def _fingerprints(data: DataRecord) -> list[Row]:
    splits = data.contents.get("splits")
    named = splits.items() if isinstance(splits, dict) else ()
    found = [(split, values.get("fingerprint")) for split, values in named if isinstance(values, dict)]
    return [(f"Fingerprint of {split}", str(value)) for split, value in found if value]
