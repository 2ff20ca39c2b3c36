"""Reads config.yaml of a run with the origin of each value."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from accel_train.errors import UserError
from accel_train.history.files import CONFIG
from accel_train.system.regular_files import read_regular

_MOST_BYTES = 2**16
_LINE = re.compile(r"(?:# )?([a-z]\w*: .*)")
"""A value; those that only place a run are commented out."""


@dataclass(frozen=True)
class Setting:
    """A value of a run's config."""

    value: Any
    """A scalar or a list of scalars."""
    origin: str
    """Where it came from, such as ``flag``; empty if that was edited away."""


def read_settings(folder: Path) -> dict[str, Setting]:
    """Read the config of a run: every value by its field, in the order of the help.

    Raises:
        UserError: the file is missing, or no config of a run.
    """
    path = folder / CONFIG
    hint = "give the folder of a run, such as one of runs/*"
    try:
        text = read_regular(path, _MOST_BYTES).decode("utf-8")
        found = dict(_settings(text))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", hint) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())}", hint) from None
    if not found:
        raise UserError(f"{path} has no `key: value` pairs", hint)
    return found


def _settings(text: str) -> Iterator[tuple[str, Setting]]:
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            loader = yaml.SafeLoader(match[1])
            try:
                node: Any = loader.get_single_node()
                name, value = node.value[0]
                parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
                if not all(isinstance(part, yaml.ScalarNode) for part in parts):  # aliases could grow without end
                    raise ValueError(f"{name.value} is neither a value nor a list of values")
                origin = match[1][value.end_mark.index :].strip().removeprefix("# ")
                yield str(name.value), Setting(loader.construct_document(node)[name.value], origin)
            finally:
                loader.dispose()
