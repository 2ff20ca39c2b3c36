"""The tracker csv: metrics.csv in the run folder, one row a record."""

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from accel_train.history.files import METRICS_CSV
from accel_train.loggers.run_files import open_to_append
from accel_train.system.atomic_files import write_file
from accel_train.trackers.base import TRACKED, Row, TrackedRun

_NUMBERS = (int, float, float | None)
_NAMES = [field.name for kind in TRACKED for field in fields(kind) if field.type in _NUMBERS]
COLUMNS = tuple(dict.fromkeys(("kind", "epoch", "update", *_NAMES)))
"""The fields of all records that have numbers."""


class Csv:
    """Writes rows as they come; a resumed run writes the file again."""

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        path = run.folder / METRICS_CSV
        write_file(path, _line(COLUMNS).encode())
        self._file = open_to_append(path)
        return {}

    def log(self, row: Row) -> None:
        values = {**row.values, "kind": row.kind, "update": row.update}
        self._file.write(_line([values.get(name, "") for name in COLUMNS]))
        self._file.flush()

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        """Nothing: the run folder holds the report."""

    def close(self, *, complete: bool) -> None:
        self._file.close()


def _line(values: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)  # type: ignore[arg-type]
    return text.getvalue()
