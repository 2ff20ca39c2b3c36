"""Parses durations such as 3h50m and intervals such as 1epoch, 500updates or 10min."""

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["epochs", "updates", "seconds"]

_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_NUMBER = r"\s*([0-9]{1,9})\s*"
_DURATION = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?:in)?)?(?:{_NUMBER}s)?\s*")
_COUNTED = re.compile(rf"{_NUMBER}(epoch|update)s?\s*")
_PLURAL: dict[str, Unit] = {"epoch": "epochs", "update": "updates"}


@dataclass(frozen=True)
class Interval:
    """How often something happens."""

    count: float
    """A positive whole number."""
    unit: Unit

    def is_due(self, *, epoch: int | None = None, update: int | None = None) -> bool:
        """Return True if this number of finished epochs or updates is a multiple of the interval."""
        done = {"epochs": epoch, "updates": update}.get(self.unit)
        return done is not None and done % self.count == 0

    def __str__(self) -> str:
        """Return the shortest text that :func:`parse_interval` reads as this interval."""
        if self.unit != "seconds":
            return f"{self.count:.0f}{self.unit if self.count > 1 else self.unit[:-1]}"
        largest = next(unit for unit, seconds in _SECONDS.items() if self.count % seconds == 0)
        return f"{self.count / _SECONDS[largest]:.0f}{largest}"


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as ``3h50m``, ``90s`` or ``1d12h``.

    Raises:
        ValueError: it is not a duration, or zero.
    """
    match = _DURATION.fullmatch(text)
    if not match or not any(match.groups()):
        raise ValueError("not a duration such as 3h50m, 10min or 90s")
    seconds = sum(int(number or 0) * unit for number, unit in zip(match.groups(), _SECONDS.values(), strict=True))
    if seconds == 0:
        raise ValueError("a duration must be longer than zero, such as 3h50m, 10min or 90s")
    return float(seconds)


def parse_interval(text: str) -> Interval:
    """Parse an interval such as ``1epoch``, ``500updates`` or ``10min``.

    Raises:
        ValueError: it is not an interval, or zero.
    """
    if match := _COUNTED.fullmatch(text):
        if int(match[1]) == 0:
            raise ValueError("an interval must be longer than zero, such as 1epoch, 500updates or 10min")
        return Interval(int(match[1]), _PLURAL[match[2]])
    if _DURATION.fullmatch(text) and text.strip():
        return Interval(parse_duration(text), "seconds")
    raise ValueError("not an interval such as 1epoch, 500updates or 10min")
