"""The events of a run: frozen dataclasses of plain numbers, for loggers to print or write."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar

from accel_train.events.evaluation import ClassResult, Evaluated, ReliabilityBin
from accel_train.events.records import (
    DataRecord,
    HardwareRecord,
    HostRecord,
    ModelRecord,
    PhaseTimes,
    PlanRecord,
    RankEpoch,
    RankStart,
    SoftwareRecord,
)

__all__ = [
    "ClassResult",
    "DataRecord",
    "EpochByRank",
    "EpochEnd",
    "Evaluated",
    "Event",
    "HardwareRecord",
    "HostRecord",
    "ModelRecord",
    "Notice",
    "PhaseTimes",
    "PlanRecord",
    "Profiled",
    "Progress",
    "RankEpoch",
    "RankStart",
    "RanksStarted",
    "ReliabilityBin",
    "ReportWritten",
    "Resumed",
    "RunEnded",
    "RunStarted",
    "Saved",
    "SoftwareRecord",
    "Stopped",
    "UpdateDone",
    "as_record",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """What was requested and what runs, once, before the first update."""

    kind: ClassVar[str] = "run"
    run_folder: str
    data: DataRecord
    model: ModelRecord
    hardware: HardwareRecord
    software: SoftwareRecord
    plan: PlanRecord
    config: Mapping[str, Any]  # the resolved config as JSON values, by field
    changed: tuple[str, ...]  # fields of the config that the user gave, or that differ from their default


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run resumed from a checkpoint; comes right after RunStarted."""

    kind: ClassVar[str] = "resumed"
    epoch: int
    update: int
    seconds: float  # duration of the run until then, excluding the time between restarts


@dataclass(frozen=True, slots=True)
class RanksStarted:
    """The processes of the run by rank, before the first update."""

    kind: ClassVar[str] = "ranks"
    ranks: tuple[RankStart, ...]


@dataclass(frozen=True, slots=True)
class UpdateDone:
    """One update is done; moves the progress bar and is not written to any file.

    In all events epochs and updates are counted from 1, since the start of the run.
    """

    kind: ClassVar[str] = "update"
    epoch: int
    update: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of this process, every `log_every` updates.

    `local_ids_hash` is the sum, modulo 2**64, of a hash of every (epoch, sample index) that this process trained on
    in this update. The sum over processes does not depend on their number.
    """

    kind: ClassVar[str] = "progress"
    epoch: int
    update: int
    lr: float
    local_loss: float  # mean over this process's images in this update
    gradient_norm: float  # of the gradient averaged over processes, before clipping
    local_ids_hash: str
    gradient_variance: float | None = None  # of one image's gradient, summed over all weights; None if not measured
    gradient_square: float | None = None  # squared norm of the true gradient, unbiased: it may be negative


@dataclass(frozen=True, slots=True)
class EpochByRank:
    """What each process has trained of an epoch, by rank; comes right before its EpochEnd."""

    kind: ClassVar[str] = "epoch_by_rank"
    epoch: int
    update: int
    ranks: tuple[RankEpoch, ...]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Results over all processes; losses and accuracies are means over images."""

    kind: ClassVar[str] = "epoch"
    epoch: int
    update: int
    train_loss: float | None  # on augmented images, while the weights change; None if rollbacks skipped the epoch
    train_accuracy: float | None  # likewise
    val_loss: float
    val_accuracy: float
    ema_val_loss: float | None  # of the averaged weights; None without EMA
    ema_val_accuracy: float | None
    lr: float  # of the last update of the epoch
    images_per_second: float  # training only, all processes
    seconds: float  # training and validation
    best: bool
    val_balanced_accuracy: float | None = None  # mean accuracy of the classes; None in checkpoints of older versions
    ema_val_balanced_accuracy: float | None = None
    noise_scale: float | None = None  # gradient noise scale in images, of the last measured updates
    noise_scale_low: float | None = None  # its 95 % interval; None if it was not measured
    noise_scale_high: float | None = None  # None also if it has no upper limit

    @property
    def selection_accuracy(self) -> float:
        """The validation accuracy used to pick the best epoch: with EMA, that of the averaged weights."""
        return self.val_accuracy if self.ema_val_accuracy is None else self.ema_val_accuracy


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The final results, once."""

    kind: ClassVar[str] = "end"
    reason: str
    epochs: int
    updates: int
    train_accuracy: float | None
    val_accuracy: float
    best_epoch: int
    best_val_accuracy: float
    images_per_second: float  # from the second update to the last, excluding validation, all processes
    data_wait_share: float  # fraction of the training time that this process spent waiting for batches
    save_share: float  # fraction of the running time in which saving blocked this process
    watch_share: float  # fraction of the running time spent checking that all processes agree
    seconds_to_first_update: float  # training time only
    gpu_memory_bytes: int  # peak memory allocated to tensors on this process's GPU; 0 without a GPU
    seconds: float  # since the start of the run, excluding the time between restarts


@dataclass(frozen=True, slots=True)
class ReportWritten:
    """The page about the finished run is written; comes after RunEnded."""

    kind: ClassVar[str] = "report"
    path: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is committed: the run can resume from it, whatever happens next."""

    kind: ClassVar[str] = "saved"
    update: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user."""

    kind: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run was saved and stopped early; comes instead of RunEnded."""

    kind: ClassVar[str] = "stopped"
    reason: str
    update: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class Profiled:
    """The profile of some updates."""

    kind: ClassVar[str] = "profile"
    first_update: int
    last_update: int
    ranks: tuple[PhaseTimes, ...]
    slowest_rank: int  # which the others waited for
    traces: str  # folder of the traces


Event = (
    RunStarted
    | Resumed
    | RanksStarted
    | UpdateDone
    | Progress
    | EpochByRank
    | EpochEnd
    | Saved
    | Notice
    | Stopped
    | Profiled
    | RunEnded
    | ReportWritten
)


def as_record(event: Event | Evaluated) -> dict[str, Any]:
    """Return the JSON object of an event: `kind` first, nested records flattened, numbers unrounded."""
    record: dict[str, Any] = {"kind": event.kind}
    for name, value in asdict(event).items():
        record |= value if is_dataclass(getattr(event, name)) else {name: value}
    return record
