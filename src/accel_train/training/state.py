"""How far a run has come: all that a restart must know besides tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from accel_train.events import EpochEnd


@dataclass
class Position:
    """Where a run is. The loop moves it on; a checkpoint holds it."""

    update: int = 0
    """Updates done or skipped since the run began, which is the index of the next one."""
    epochs: int = 0
    """Epochs done, validation included."""
    epoch_sums: list[float] = field(default_factory=list)
    """Of the epoch begun, over all processes, as the checkpoint found them."""
    skipped: list[tuple[int, int]] = field(default_factory=list)
    """First update left out, and first that was not, of each stretch that a rollback left out."""
    best: EpochEnd | None = None
    last: EpochEnd | None = None
    seconds: float = 0.0
    """Time that the run has taken, restarts apart."""

    def as_record(self) -> dict[str, Any]:
        """Return the position as JSON values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Position:
        """Read what :meth:`as_record` gave."""
        epoch_ends = {name: EpochEnd(**record[name]) if record[name] else None for name in ("best", "last")}
        skipped = [(first, after) for first, after in record["skipped"]]
        return cls(**{**record, **epoch_ends, "skipped": skipped})
