"""Parses durations such as 3h50m and intervals such as 1epoch, 500updates or 10min."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Unit = Literal["epochs", "updates", "seconds"]

_SECONDS = {"d": 86400, "h": 3600, "min": 60, "s": 1}
_NUMBER = r"\s*([0-9]{1,9})\s*"
_DURATION = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?:in)?)?(?:{_NUMBER}s)?\s*")
_COUNTED = re.compile(rf"{_NUMBER}(epoch|update)s?\s*")
_PLURAL: dict[str, Unit] = {"epoch": "epochs", "update": "updates"}
_AMOUNT = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([a-z]*)")
_CLOCK = re.compile(r"(?:([0-9]{1,3})-)?([0-9]{1,4}):([0-9]{2})(?::([0-9]{2}))?")
"""[days-]hours:minutes:seconds; of two numbers, hours:minutes after days, else SLURM reads minutes:seconds."""
_OTHER_UNITS = {
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("mins", "minute", "minutes"), "min"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("e", "ep", "eps"), "epoch"),
    **dict.fromkeys(("step", "steps", "iter", "iters", "iteration", "iterations", "batch", "batches"), "update"),
    "m": "min",
}


class NotReadError(ValueError):
    """A text that is no duration or interval."""

    def __init__(self, message: str, text: str, units: str) -> None:
        super().__init__(message)
        self.meant = tuple(_in_other_notation(text))
        """What may be meant by it: durations and intervals."""
        self.fix = f"write a whole number above 0 and its unit: {units}"


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
        NotReadError: it is not a duration, or zero.
    """
    match = _DURATION.fullmatch(text)
    if not match or not any(match.groups()):
        raise NotReadError("not a duration such as 3h50m, 10min or 90s", text, _OF_DURATIONS)
    seconds = sum(int(number or 0) * unit for number, unit in zip(match.groups(), _SECONDS.values(), strict=True))
    if seconds == 0:
        raise NotReadError("a duration must be longer than zero, such as 3h50m, 10min or 90s", "", _OF_DURATIONS)
    return float(seconds)


def parse_interval(text: str) -> Interval:
    """Parse an interval such as ``1epoch``, ``500updates`` or ``10min``.

    Raises:
        NotReadError: it is not an interval, or zero.
    """
    if match := _COUNTED.fullmatch(text):
        if int(match[1]) == 0:
            problem = "an interval must be longer than zero, such as 1epoch, 500updates or 10min"
            raise NotReadError(problem, "", _OF_INTERVALS)
        return Interval(int(match[1]), _PLURAL[match[2]])
    if _DURATION.fullmatch(text) and text.strip():
        return Interval(parse_duration(text), "seconds")
    raise NotReadError("not an interval such as 1epoch, 500updates or 10min", text, _OF_INTERVALS)


_OF_DURATIONS = "d, h, min or s"
_OF_INTERVALS = f"epochs, updates, {_OF_DURATIONS}"


def _in_other_notation(text: str) -> Iterator[str]:
    """Yield what a text may mean in our notation: 4:00:00, 1.5h, 10 minutes, 100 steps, or a number without unit."""
    text = text.strip().lower()
    if clock := _CLOCK.fullmatch(text):
        days, first, second, third = (int(number or 0) for number in clock.groups())
        if clock[4] is None and clock[1] is None:
            yield from _amounts(60 * first + second, "s")
        yield from _amounts(86400 * days + 3600 * first + 60 * second + third, "s")
    elif amount := _AMOUNT.fullmatch(text):
        unit = _OTHER_UNITS.get(amount[2], amount[2].removesuffix("s") or amount[2])
        for each in [unit] if unit else ("update", "epoch", "min", "s"):
            yield from _amounts(float(amount[1]), each)


def _amounts(count: float, unit: str) -> Iterator[str]:
    """Yield a number of units as a text that is read, if that is a whole number of updates, epochs or seconds."""
    whole = round(count * _SECONDS.get(unit, 1))
    if whole <= 0 or whole != count * _SECONDS.get(unit, 1):
        return
    if unit in _PLURAL:
        yield str(Interval(whole, _PLURAL[unit]))
    elif unit in _SECONDS:
        parts = []
        for name, seconds in _SECONDS.items():
            parts.append((whole // seconds, name))
            whole %= seconds
        yield "".join(f"{number}{name}" for number, name in parts if number)
