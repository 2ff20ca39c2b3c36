"""The events of a run: frozen dataclasses of plain numbers, for loggers to print or write."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class DataRecord:
    """The images to train on and to validate on."""

    data: str  # name, sizes and location of the data in one sentence
    train_images: int
    val_images: int
    classes: int
    contents: Mapping[str, Any]  # names of the classes; of each split its images, counts by class and fingerprint
    augment: str


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model, and how it fits the images."""

    model: str
    parameters: int
    matches: tuple[str, ...]  # how images and model were adapted to each other, one sentence each


@dataclass(frozen=True, slots=True)
class HardwareRecord:
    """The processes and what they run on."""

    world_size: int
    local_world_size: int  # processes on this machine
    device_asked: str
    device: str
    backend: str | None  # None for a single process
    strategy: str
    precision: str
    threads: int  # intra-op, per process
    cores: int  # available to the processes of this machine
    launched_by: str
    environment: tuple[str, ...]  # variables that are obeyed, as NAME=value
    identity: dict[str, str]  # what decides the last bits of a sum, besides the config


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Batches, updates, optimizer and learning rate."""

    batch_size: int
    accumulate: int
    global_batch: int
    epochs: int
    updates_per_epoch: int
    total_updates: int
    images_dropped: int  # per epoch: its incomplete last batch
    optimizer: str
    optimizer_settings: Mapping[str, Any]  # keyword arguments other than learning rate and weight decay
    base_lr: float
    lr_scaling: str
    lr_base_batch: int  # global batch that `base_lr` refers to; unused when `lr_scaling` is none
    peak_lr: float
    schedule: str
    warmup_updates: int
    warmup_from: float
    seed: int
    exact: bool
    ema_half_life: float | None  # in images


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """What was requested and what runs, once, before the first update."""

    kind: ClassVar[str] = "run"
    run_folder: str
    data: DataRecord
    model: ModelRecord
    hardware: HardwareRecord
    plan: PlanRecord
    config: Mapping[str, Any]  # the resolved config as JSON values, by field
    changed: tuple[str, ...]  # fields of the config that differ from their default


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
class Resumed:
    """The run resumed from a checkpoint; comes before the first update."""

    kind: ClassVar[str] = "resumed"
    update: int


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
class PhaseTimes:
    """Milliseconds per update of one process by phase; they add up to the whole update."""

    data_wait: float
    forward: float
    backward: float
    optimizer: float
    communication: float  # waiting for other processes, without overlapping computation
    other: float

    @property
    def total(self) -> float:
        return self.data_wait + self.forward + self.backward + self.optimizer + self.communication + self.other

    @property
    def own(self) -> float:
        """Time excluding communication, during which other processes may have waited for this one."""
        return self.total - self.communication


@dataclass(frozen=True, slots=True)
class Profiled:
    """The profile of some updates."""

    kind: ClassVar[str] = "profile"
    first_update: int
    last_update: int
    ranks: tuple[PhaseTimes, ...]
    slowest_rank: int  # which the others waited for
    traces: str  # folder of the traces


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The result of evaluating a model, each image counted once."""

    kind: ClassVar[str] = "evaluation"
    run_folder: str
    weights: str
    data: str
    images: int
    loss: float
    accuracy: float
    top5: float  # top-5 accuracy; 1 if there are at most five classes
    notes: tuple[str, ...]  # messages about the data for the user


Event = RunStarted | Resumed | UpdateDone | Progress | EpochEnd | Saved | Notice | Stopped | Profiled | RunEnded


def as_record(event: Event | Evaluated) -> dict[str, Any]:
    """Return the JSON object of an event: `kind` first, nested records flattened, numbers unrounded."""
    record: dict[str, Any] = {"kind": event.kind}
    for name, value in asdict(event).items():
        record |= value if is_dataclass(getattr(event, name)) else {name: value}
    return record
