"""Explains why a value of an option was refused, and which one the user may have meant."""

import math
import re
import shlex
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from accel_train.config.durations import NotReadError
from accel_train.config.fields import choices_of, help_of
from accel_train.config.suggest import VALUES, did_you_mean, suggestions
from accel_train.errors import UserError, shown
from accel_train.system.records import reason_of

_MOST_SHOWN = 200
_NUMBER = re.compile(
    r"([-+]?[\d.]+(?:e[-+]?\d+)?)\s*(%|k|x|px|gb|gbit/s|gbps|images/s|(?:epoch|gpu|image|node|pixel|update)s?)?"
)
_FACTORS = {"%": 0.01, "k": 1000}
_LEAST_PERCENT = 5
_HUGE = 2**53
"""The bound of every whole number: nobody means one near it."""


def refusal(kind: type[BaseModel], failure: ErrorDetails, file: str | None) -> UserError:
    """Return the error of the first value that pydantic refused; `file` is where it stands, None for a flag."""
    name, given = str(failure["loc"][0]), failure["input"]
    flag, place = "--" + name.replace("_", "-"), f" in {file}" if file else ""
    if failure["type"] == "missing":
        return UserError(f"{flag} is missing{place}", f"{flag}: {help_of(kind, name)}")
    if isinstance(given, list | tuple) and all(isinstance(part, str) for part in given):
        given = ",".join(given)  # as it was typed
    value = (given if isinstance(given, str) else shown(given))[:_MOST_SHOWN]
    choices = choices_of(kind, name)
    reason, meant = reason_of(failure), suggestions(value, choices, VALUES)
    if choices:
        reason = f"must be one of {', '.join(choices)}" if len(choices) > 1 else f"must be {choices[0]}"
    elif len(failure["loc"]) == 1:
        meant = [each for each in _numbers_meant(value) if _is_accepted(kind, name, each)][:1]
    fix = _nearest(flag, failure) or f"{flag}: {help_of(kind, name)}"
    if isinstance(error := failure.get("ctx", {}).get("error"), NotReadError):
        meant, fix = [each for each in dict.fromkeys(error.meant) if _is_accepted(kind, name, each)][:2], error.fix
    typed = shlex.quote(value) if isinstance(given, str) else value
    return UserError(f"{flag} {typed}{place}: {reason}", did_you_mean(meant, fix))


def _nearest(flag: str, failure: ErrorDetails) -> str | None:
    """Return what to give in place of a number that is out of bounds; None if no number is the nearest one."""
    bounds = failure.get("ctx", {})
    for name, beyond, direction in (("ge", 0, "more"), ("gt", 1, "more"), ("le", 0, "less"), ("lt", -1, "less")):
        if name in bounds and (isinstance(bounds[name], int) or not beyond):
            nearest = bounds[name] + beyond
            if abs(nearest) >= _HUGE:
                return None
            return f"use {flag} {nearest if isinstance(nearest, int) else f'{nearest:g}'} or {direction}"
    return None


def _numbers_meant(text: str) -> Iterator[str]:
    """Yield numbers that a text may mean: 1,024 or 0,1, 10epochs, 95 or 95% for 0.95, 2.5 for a whole number."""
    for plain in (re.sub(r",(?=\d{3}\b)", "", text), text.replace(",", ".")):
        if found := _NUMBER.fullmatch(plain.strip().lower()):
            try:
                number = float(found[1]) * _FACTORS.get(found[2], 1)
            except ValueError:  # 0.1.2
                continue
            if not math.isfinite(number):
                continue
            yield from (f"{number:.15g}", f"{abs(number):.15g}")
            if _LEAST_PERCENT <= number <= 100:
                yield f"{number / 100:g}"
            if round(number) != 0:
                yield f"{round(number)}"


def _is_accepted(kind: type[BaseModel], name: str, value: Any) -> bool:
    """Return whether a config takes a value, apart from its other fields."""
    try:
        kind(**{name: value})
    except ValidationError as failure:
        return all(error["loc"][0] != name for error in failure.errors())
    except UserError:
        pass
    return True
