"""The facts that a run yields: frozen dataclasses of plain numbers, for sinks to print or write."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class RunStarted:
    """What was asked and obtained, once, before the first update."""

    kind: ClassVar[str] = "run"
    run_folder: str
    data: str
    """Name, sizes and place of the data in one sentence."""
    train_images: int
    val_images: int
    classes: int
    model: str
    parameters: int
    matches: tuple[str, ...]
    """How images and model were made to fit each other, a sentence each."""
    augment: str
    world_size: int
    local_world_size: int
    """Processes on this machine."""
    device_asked: str
    device: str
    backend: str | None
    """None for a single process."""
    strategy: str
    precision: str
    threads: int
    """Intra-op threads of each process."""
    cores: int
    """Cores that the processes of this machine may use."""
    launched_by: str
    batch_size: int
    accumulate: int
    global_batch: int
    epochs: int
    updates_per_epoch: int
    total_updates: int
    images_dropped: int
    """Images at the end of each epoch's order that fill no update."""
    optimizer: str
    base_lr: float
    lr_scaling: str
    lr_base_batch: int
    """Global batch that `base_lr` refers to; of no meaning when `lr_scaling` is none."""
    peak_lr: float
    schedule: str
    warmup_updates: int
    warmup_from: float
    seed: int
    exact: bool
    ema_half_life: float | None
    """In images."""


@dataclass(frozen=True, slots=True)
class UpdateDone:
    """One update is over; moves a progress bar and is written nowhere."""

    kind: ClassVar[str] = "update"
    epoch: int
    update: int
    """Updates done since the run began, counted from 1; likewise below."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of this process, every `log_every` updates.

    `local_ids_hash` is the sum, modulo 2**64, of a hash of every (epoch, image id) that this process
    trained on in this update: added over the processes it is the same for any number of them.
    """

    kind: ClassVar[str] = "progress"
    epoch: int
    update: int
    lr: float
    local_loss: float
    """Mean over this process's images of this update."""
    gradient_norm: float
    """Of the mean gradient of all processes, before clipping."""
    local_ids_hash: str


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Numbers over all processes; losses and accuracies are means over images."""

    kind: ClassVar[str] = "epoch"
    epoch: int
    """Counted from 1."""
    update: int
    """Updates done since the run began."""
    train_loss: float | None
    train_accuracy: float | None
    """As trained: augmented images, weights that change within the epoch. None if a rollback has left out all of it."""
    val_loss: float
    val_accuracy: float
    ema_val_loss: float | None
    """Of the averaged weights, where there are any."""
    ema_val_accuracy: float | None
    lr: float
    """Of the epoch's last update."""
    images_per_second: float
    """Training only, all processes."""
    seconds: float
    """Training and validation."""
    best: bool

    @property
    def judged_accuracy(self) -> float:
        """The validation accuracy that decides what is best: of the averaged weights where there are any."""
        return self.val_accuracy if self.ema_val_accuracy is None else self.ema_val_accuracy


@dataclass(frozen=True, slots=True)
class RunEnded:
    """How the run ended, once."""

    kind: ClassVar[str] = "end"
    reason: str
    epochs: int
    updates: int
    train_accuracy: float | None
    val_accuracy: float
    best_epoch: int
    best_val_accuracy: float
    images_per_second: float
    """From the second update to the last, validation apart, all processes."""
    data_wait_share: float
    """Share of the training time in which this process waited for the next batch."""
    save_share: float
    """Share of the run's time in which saving held up this process."""
    watch_share: float
    """Share of the run's time in which this process checked that all agree."""
    seconds_to_first_update: float
    """Training time alone."""
    gpu_memory_bytes: int
    """The most that tensors took on this process's GPU; 0 without one."""
    seconds: float
    """Since the run began, restarts apart."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """The run goes on where a checkpoint left it; comes right after RunStarted."""

    kind: ClassVar[str] = "resumed"
    update: int


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint is committed: whatever happens now, the run can go on from it."""

    kind: ClassVar[str] = "saved"
    update: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that a person should know of."""

    kind: ClassVar[str] = "notice"
    text: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The run was stopped before its end, all is saved; comes instead of RunEnded."""

    kind: ClassVar[str] = "stopped"
    reason: str
    update: int
    exit_code: int


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """Where the time of one process went: milliseconds per update, which add up to all of it."""

    data_wait: float
    forward: float
    backward: float
    optimizer: float
    communication: float
    """In which the process waited for others and computed nothing."""
    other: float

    @property
    def total(self) -> float:
        return self.data_wait + self.forward + self.backward + self.optimizer + self.communication + self.other

    @property
    def own(self) -> float:
        """Time in which the others may have waited for this process."""
        return self.total - self.communication


@dataclass(frozen=True, slots=True)
class Profiled:
    """Some updates were profiled."""

    kind: ClassVar[str] = "profile"
    first_update: int
    last_update: int
    ranks: tuple[PhaseTimes, ...]
    slowest_rank: int
    """That the others waited for."""
    traces: str
    """Folder of the traces."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What evaluating a model gave, each image counted once."""

    kind: ClassVar[str] = "evaluation"
    run_folder: str
    weights: str
    data: str
    images: int
    loss: float
    accuracy: float
    top5: float
    """Right class among the five best; 1 where there are no more than five."""
    notes: tuple[str, ...]
    """What its user should know of the data."""


Event = RunStarted | Resumed | UpdateDone | Progress | EpochEnd | Saved | Notice | Stopped | Profiled | RunEnded


def as_record(event: Event | Evaluated) -> dict[str, Any]:
    """Return the JSON object of an event: its `kind` first, numbers unrounded."""
    return {"kind": event.kind, **asdict(event)}
