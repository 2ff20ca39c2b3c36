"""Makes configs from options and YAML files."""

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from accel_train.config.fields import Config, expand_home, help_of
from accel_train.errors import UserError

C = TypeVar("C", bound=Config)


def read_yaml(path: Path, fields: set[str]) -> dict[str, Any]:
    """Read a YAML file of config fields.

    Raises:
        UserError: the file is missing, is not a YAML mapping, or has an unknown key.
    """
    path = expand_home(path)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "give --config an existing YAML file") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: invalid UTF-8 or an invalid date
        raise UserError(
            f"{path} is not YAML: {' '.join(str(error).split())}", "write one `key: value` per line"
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} has no `key: value` pairs", "write one `key: value` per line")
    for key in values:
        if key not in fields:
            raise UserError(f"unknown key {key!r} in {path}", _suggestion(str(key), fields))
    return values


def make_config(kind: type[C], values: dict[str, Any], origins: dict[str, str]) -> C:
    """Build a config from values; errors name the file that a value came from, by its origin.

    Raises:
        UserError: a value is out of bounds, has no effect, or conflicts with another.
    """
    try:
        return kind(**{name: value for name, value in values.items() if value is not None})
    except UserError as conflict:
        files = {origin for origin in origins.values() if origin != "flag"}
        together = f" (flags and {', '.join(files)} together)" if files else ""
        raise UserError(conflict.message + together, conflict.hint) from None
    except ValidationError as failure:
        first = failure.errors()[0]
        name = str(first["loc"][0])
        origin = origins.get(name, "flag")
        flag = "--" + name.replace("_", "-")
        source = "" if origin == "flag" else f" in {origin}"
        reason = first["msg"].removeprefix("Value error, ")
        reason = reason[0].lower() + reason[1:]
        raise UserError(f"{flag} {first['input']!s}{source}: {reason}", f"{flag}: {help_of(kind, name)}") from None


def _suggestion(key: str, fields: set[str]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_"), fields, n=1)
    return f"did you mean {close[0]}?" if close else "`accel_train train --help-all` lists the options"
