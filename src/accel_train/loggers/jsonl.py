"""The logger for programs: one JSON object per line, numbers unrounded."""

import json
import math
from datetime import UTC, datetime
from typing import Any, TextIO

from accel_train.events import Event, as_record


class JsonLines:
    """Writes and flushes the record of each event of the given kinds, with the time in ISO 8601, UTC."""

    def __init__(self, stream: TextIO, kinds: tuple[type[Event], ...]) -> None:
        self._stream = stream
        self._kinds = kinds

    def __call__(self, event: Event) -> None:
        if isinstance(event, self._kinds):
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            record = {"kind": event.kind, "time": time, **portable(as_record(event))}
            try:
                self._stream.write(json.dumps(record, allow_nan=False) + "\n")
                self._stream.flush()
            except OSError as error:
                error.filename = self._stream.name  # that of a write names no file
                raise


def portable(value: Any) -> Any:
    """Return a value with None instead of NaN and infinities, which JSON lacks."""
    if isinstance(value, dict):
        return {name: portable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [portable(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
