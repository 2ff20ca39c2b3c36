"""The classes that a model predicts for pictures without labels: a table with one row a picture, as CSV or records.

Shape suffixes: N pictures, T classes of a picture.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_train.metrics.predictions import Indices, Probabilities, written_name


@dataclass(frozen=True)
class PredictedClasses:
    """The most probable classes of each picture, in the order of the pictures."""

    classes: tuple[str, ...]
    images: Sequence[str]
    """Names of the pictures."""
    best_NT: Indices
    """Indices of the most probable classes, the first the most probable one."""
    probabilities_NT: Probabilities
    problems: Mapping[int, str]
    """Why there is no prediction, by number of the picture."""
    threshold: float = 0.0
    """Classes that are less probable are left out."""

    def __len__(self) -> int:
        return len(self.images)

    def of(self, row: int) -> list[tuple[str, str]]:
        """Return the names of the classes of a picture, and their probabilities as the shortest digits."""
        if row in self.problems:
            return []
        pairs = zip(self.best_NT[row].tolist(), self.probabilities_NT[row], strict=True)
        return [(self.classes[number], str(share)) for number, share in pairs if share >= self.threshold]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield a record a picture, for JSON: its name, and the classes or an error."""
        for row, name in enumerate(self.images):
            if row in self.problems:
                yield {"image": name, "error": self.problems[row]}
            else:
                found = [{"class": label, "probability": float(share)} for label, share in self.of(row)]
                yield {"image": name, "predictions": found}

    def csv_bytes(self) -> bytes:
        """Return the table as CSV: UTF-8 whatever the names; equal tables make equal bytes."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        count = self.best_NT.shape[1]
        ranks = ["", *(f"_{rank}" for rank in range(2, count + 1))]
        writer.writerow(["image", *(name + rank for rank in ranks for name in ("class", "probability")), "error"])
        for row, name in enumerate(self.images):
            cells = [cell for pair in self.of(row) for cell in pair]
            cells += [""] * (2 * count - len(cells))
            writer.writerow(map(written_name, (name, *cells, self.problems.get(row, ""))))
        return text.getvalue().encode()
