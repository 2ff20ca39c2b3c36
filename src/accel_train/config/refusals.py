"""Explains why a value of an option was refused, and which one the user may have meant."""

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from accel_train.config.fields import choices_of, help_of
from accel_train.config.suggest import VALUES, did_you_mean, suggestions
from accel_train.errors import UserError, shown
from accel_train.system.records import reason_of

_MOST_SHOWN = 200


def refusal(kind: type[BaseModel], failure: ErrorDetails, file: str | None) -> UserError:
    """Return the error of the first value that pydantic refused; `file` is where it stands, None for a flag."""
    name, given = str(failure["loc"][0]), failure["input"]
    flag, place = "--" + name.replace("_", "-"), f" in {file}" if file else ""
    if failure["type"] == "missing":
        return UserError(f"{flag} is missing{place}", f"{flag}: {help_of(kind, name)}")
    value = (given if isinstance(given, str) else shown(given))[:_MOST_SHOWN]
    choices = choices_of(kind, name)
    limits = failure.get("ctx", {})
    if choices:
        allowed = f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0]
        reason = f"must be {allowed}"
        hint = did_you_mean(suggestions(value, choices, VALUES), f"choose {allowed}")
    else:
        reason, hint = reason_of(failure), f"{flag}: {help_of(kind, name)}"
    if _is_percentage(value, limits.get("le", limits.get("lt"))):
        hint = f"it is a fraction: did you mean {float(value) / 100:g}?"
    return UserError(f"{flag} {value}{place}: {reason}", hint)


def _is_percentage(value: object, limit: object) -> bool:
    """Return whether a value of at most 100 was given where a fraction is wanted."""
    try:
        return limit == 1 and 1 < float(str(value)) <= 100
    except ValueError:
        return False
