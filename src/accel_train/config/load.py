"""Makes configs from options and YAML files."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from accel_train.config.augmentation_panel import LEVEL_OPTIONS
from accel_train.config.derived import derived_values, outdated
from accel_train.config.fields import Config, expand_home
from accel_train.config.refusals import refusal
from accel_train.config.suggest import OPTIONS, did_you_mean, suggestions
from accel_train.errors import UserError, shown
from accel_train.system.regular_files import read_regular

C = TypeVar("C", bound=Config)
_SYNONYMS = {other: option.replace("-", "_") for other, option in OPTIONS.items()}

_MOST_BYTES = 2**16
"""Of a YAML file: it is read at less than 1 MB/s."""
_OWN_FIFOS = (Path("/dev/fd"), Path("/proc/self/fd"))
"""Where a shell's ``<(…)`` is found."""


def read_yaml(path: Path, fields: set[str]) -> dict[str, Any]:
    """Read a YAML file of config fields, see :func:`read_values`."""
    return read_values(path, fields)[0]


def read_values(path: Path, fields: set[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Read a YAML file of config fields; return also the origins of those that were defaults of a run that wrote it.

    Raises:
        UserError: the file is missing, is not a YAML mapping of plain values, or has an unknown key.
    """
    path = expand_home(path)
    try:
        data = path.read_bytes() if path.parent in _OWN_FIFOS else read_regular(path, _MOST_BYTES)
        text = data.decode("utf-8")
        values = _plain_mapping(text)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}", "give a YAML file that exists, such as config.yaml in a run folder"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: invalid UTF-8 or an invalid date
        raise UserError(f"{path} is not YAML: {_problem(error)}", "write one `key: value` per line") from None
    if values is None:
        raise UserError(f"{path} has no `key: value` pairs", "write one `key: value` per line")
    for key in values:
        if key not in fields:
            hint = did_you_mean(suggestions(str(key), fields, _SYNONYMS), "see accel_train train --help-all")
            raise UserError(f"unknown key {shown(key)} in {path}", hint)
    return values, derived_values(text)


def _problem(error: Exception) -> str:
    """Return what is wrong with a YAML text, and in which line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {' '.join(error.problem.split())}"
    return " ".join(str(error).split())


def _plain_mapping(text: str) -> dict[str, Any] | None:
    """Return the mapping of a YAML text from keys to scalars and lists of scalars; None if it holds something else.

    It is checked before values are made: aliases and merge keys could make a small text grow without end.
    """
    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return {}
        if not isinstance(root, yaml.MappingNode):
            return None
        keys: set[str] = set()
        for key, value in root.value:
            parts = value.value if isinstance(value, yaml.SequenceNode) else [value]
            if not all(isinstance(node, yaml.ScalarNode) for node in (key, *parts)):
                raise ValueError(f"{shown(key.value)} is neither a value nor a list of values")
            if key.value in keys:
                raise ValueError(f"{shown(key.value)} is there twice")
            keys.add(key.value)
        values: dict[str, Any] = loader.construct_document(root)
        return values
    finally:
        loader.dispose()


def merged(from_file: dict[str, Any], flags: dict[str, Any], derived: Collection[str] = ()) -> dict[str, Any]:
    """Return the values of a file that flags leave.

    A level of augmentation replaces all that the file has of it. Of the values in the file that were `derived` from
    others, those are left out that follow from flags now.
    """
    replaced = flags.keys() | (LEVEL_OPTIONS if "augment" in flags else set()) | outdated(derived, flags)
    return {name: value for name, value in from_file.items() if name not in replaced}


def make_config(kind: type[C], values: dict[str, Any], origins: dict[str, str]) -> C:
    """Build a config from values; errors name the file that a value came from, by its origin.

    Raises:
        UserError: a value is out of bounds, has no effect, or conflicts with another.
    """
    try:
        return kind(**{name: value for name, value in values.items() if value is not None})
    except UserError as conflict:
        files = ", ".join({origin: None for origin in origins.values() if origin != "flag"})
        together = f" (flags and {files} together)" if "flag" in origins.values() else f" (in {files})"
        raise UserError(conflict.message + together * bool(files), conflict.hint) from None
    except ValidationError as failure:
        first = failure.errors()[0]
        origin = origins.get(str(first["loc"][0]), "flag")
        raise refusal(kind, first, None if origin == "flag" else origin) from None


def read_config(path: Path, kind: type[C]) -> C:
    """Read the config that a run has stored.

    Raises:
        UserError: the file is missing or damaged, or has a value that cannot be right.
    """
    values = read_yaml(path, set(kind.model_fields))
    return make_config(kind, values, dict.fromkeys(kind.model_fields, str(path)))
