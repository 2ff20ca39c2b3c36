"""Makes configs from values given as flags or in YAML files."""

import difflib
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from accel_train.config.options import Config
from accel_train.errors import UserError

C = TypeVar("C", bound=Config)


def read_yaml(path: Path, fields: set[str]) -> dict[str, Any]:
    """Read a YAML file of config fields.

    Raises:
        UserError: the file is missing, is no YAML mapping, or holds a key that is no field.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", "give --config an existing YAML file") from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: bytes that are no text, dates that are none
        raise UserError(
            f"{path} is not YAML: {' '.join(str(error).split())}", "write one `key: value` a line"
        ) from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UserError(f"{path} holds no `key: value` pairs", "write one `key: value` a line")
    for key in values:
        if key not in fields:
            raise UserError(f"unknown key {key!r} in {path}", _suggestion(str(key), fields))
    return values


def make_config(kind: type[C], values: dict[str, Any], origins: dict[str, str]) -> C:
    """Build a config from given values; `origins` says where each came from, for the error.

    Raises:
        UserError: a value is out of its bounds or has no effect.
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
        where = origins.get(name, "flag")
        flag = "--" + name.replace("_", "-")
        source = "" if where == "flag" else f" in {where}"
        reason = first["msg"].removeprefix("Value error, ")
        reason = reason[0].lower() + reason[1:]
        raise UserError(
            f"{flag} {first['input']!s}{source}: {reason}", f"{flag}: {kind.model_fields[name].description}"
        ) from None


def _suggestion(key: str, fields: set[str]) -> str:
    close = difflib.get_close_matches(key.replace("-", "_"), fields, n=1)
    return f"did you mean {close[0]}?" if close else "`accel_train train --help` lists the options"
