"""Reads metrics.jsonl as it grows."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from accel_train.events import RunEnded
from accel_train.trackers.base import TRACKED, Row

_UPDATES = {event.kind: "updates" if event is RunEnded else "update" for event in TRACKED}
"""By kind of the records that are tracked, where each has its update."""


class MetricsTail:
    """The rows that a file has got since they were last read.

    A run that is resumed replaces the file: this one remains that of its process.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def read(self) -> Iterator[Row]:
        """Yield the rows that are complete; what is damaged is skipped."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        for line in lines:
            if row := _row(line):
                yield row

    def close(self) -> None:
        self._file.close()


def _row(line: bytes) -> Row | None:
    """Return the numbers of a record; None if it is not tracked. JSON has null where they are not finite."""
    try:
        record: Any = json.loads(line)
        place = _UPDATES[record["kind"]]
        update, time = int(record[place]), datetime.fromisoformat(record["time"]).timestamp()
    except (ValueError, TypeError, KeyError):
        return None
    numbers = {
        name: value
        for name, value in record.items()
        if name != place and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return Row(record["kind"], update, time, numbers)
