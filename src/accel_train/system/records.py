"""Reads JSON that anybody may have written: each value is checked against the type that it must have."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from accel_train.errors import shown
from accel_train.system.regular_files import read_regular

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")

Text = Annotated[str, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=2**53)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Sha256 = Annotated[str, Field(strict=True, pattern="^[0-9a-f]{64}$")]


_REASONS: dict[str, Callable[[dict[str, Any]], str]] = {
    **dict.fromkeys(("float_parsing", "float_type"), lambda limits: "must be a number"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), lambda limits: "must be a whole number"),
    "finite_number": lambda limits: "must be finite",
    "greater_than": lambda limits: f"must be greater than {_number(limits['gt'])}",
    "greater_than_equal": lambda limits: f"must be at least {_number(limits['ge'])}",
    "less_than": lambda limits: f"must be less than {_number(limits['lt'])}",
    "less_than_equal": lambda limits: f"must be at most {_number(limits['le'])}",
}
"""By pydantic's type of error."""


def read_record(path: Path, kind: type[T], expected_format: int) -> T:
    """Read a JSON object whose key `format` has this value, and whose other keys are the fields of a dataclass.

    Raises:
        OSError: the file cannot be read.
        ValueError: it has another format, or a value that cannot be right; the message continues its name.
    """
    values = parse_json(read_regular(path))
    if not isinstance(values, dict) or "format" not in values:
        raise ValueError("is damaged: it has no format")
    written = values.pop("format")
    if type(written) is not int or written != expected_format:
        raise ValueError(f"has format {shown(written)}, this version reads {expected_format}")
    return checked(values, kind)


def parse_json(data: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: it is none, or has a key twice; the message continues the name of a file.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_without_repetition)
    except RecursionError:
        raise ValueError("is damaged: it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"is damaged: {error}") from None


def checked(value: Any, kind: type[T]) -> T:
    """Return a value of JSON as an instance of a type; the fields of dataclasses must be exactly its keys.

    Raises:
        ValueError: it is none; the message continues the name of a file.
    """
    try:
        made: T = _adapter(kind).validate_python([value])[0]  # type: ignore[arg-type]  # types are hashable
    except ValidationError as failure:
        raise ValueError(f"is damaged: {_described(failure.errors(include_url=False)[0])}") from None
    return made


@cache
def _adapter(kind: Any) -> "TypeAdapter[list[Any]]":
    from pydantic import TypeAdapter  # takes milliseconds, and a new run reads nothing

    return TypeAdapter(list[kind], config=ConfigDict(extra="forbid"))  # a dataclass alone takes no config


def reason_of(failure: "ErrorDetails") -> str:
    """Return why pydantic refused a value, as the end of a sentence."""
    if explain := _REASONS.get(failure["type"]):
        return explain(failure.get("ctx", {}))
    message = failure["msg"].removeprefix("Value error, ")
    return message[0].lower() + message[1:]


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {shown(next(name for name in names if names.count(name) > 1))} is there twice")
    return values


def _described(error: "ErrorDetails") -> str:
    if error["type"] == "value_error":
        return error["msg"].removeprefix("Value error, ")
    place = ".".join(shown(key).strip("'") for key in error["loc"][1:]) or "it"
    if error["type"] == "missing":
        return f"{place} is missing"
    if error["type"] == "unexpected_keyword_argument":
        return f"{place} is unknown"
    return f"{place} is {shown(error['input'])}: {reason_of(error)}"
