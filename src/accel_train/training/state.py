"""The state of a run besides its tensors: all that a restart must know."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from accel_train.events import EpochEnd


@dataclass
class TrainingState:
    """How far a run has come. The loop advances it; a checkpoint stores it."""

    update: int = 0
    """Updates done or skipped since the run began, which is the index of the next one."""
    epochs: int = 0
    """Epochs done, validation included."""
    epoch_sums: list[float] = field(default_factory=list)
    """Metric sums of the current epoch over all processes, as of the checkpoint."""
    skipped: list[tuple[int, int]] = field(default_factory=list)
    """For each rollback, the first update that it skipped and the first after those."""
    best: EpochEnd | None = None
    last: EpochEnd | None = None
    seconds: float = 0.0
    """Duration of the run so far, excluding the time between restarts."""

    def as_record(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> TrainingState:
        """Return the state from a record of :meth:`as_record`."""
        epoch_ends = {name: EpochEnd(**record[name]) if record[name] else None for name in ("best", "last")}
        skipped = [(first, after) for first, after in record["skipped"]]
        return cls(**{**record, **epoch_ends, "skipped": skipped})
