"""The state of a run besides its tensors: all that a restart must know."""

from dataclasses import asdict, dataclass, field
from typing import Any

from accel_train.events import EpochEnd
from accel_train.system.records import Count, Number


@dataclass
class TrainingState:
    """How far a run has come. The loop advances it; a checkpoint stores it."""

    update: Count = 0
    """Updates done or skipped since the run began, which is the index of the next one."""
    epochs: Count = 0
    """Epochs done, validation included."""
    epoch_sums: list[float] = field(default_factory=list)
    """Metric sums of the current epoch over all processes, as of the checkpoint."""
    skipped: list[tuple[Count, Count]] = field(default_factory=list)
    """For each rollback, the first update that it skipped and the first after those."""
    best: EpochEnd | None = None
    last: EpochEnd | None = None
    seconds: float = 0.0
    """Duration of the run so far, excluding the time between restarts."""
    gradient_shares: list[Number] = field(default_factory=list)
    """Of the last measured updates; see :mod:`accel_train.training.noise_scale`."""

    def as_record(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return asdict(self)
