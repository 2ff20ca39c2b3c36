"""The records inside events: plain numbers that belong together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DataRecord:
    """The images to train on and to validate on."""

    data: str  # its name, or path
    origin: str  # where it comes from, to print after the name; empty if the name says it
    shape: tuple[int, int, int]  # channels, height and width of an image
    train_images: int
    val_images: int
    classes: int
    contents: Mapping[str, Any]  # names of the classes; of each split its images, counts by class and fingerprint
    cache: str  # where the images are in memory; empty if they are read one by one
    ignored_files: int
    augment: str


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The model, and how it fits the images."""

    model: str
    parameters: int
    matches: tuple[str, ...]  # how images and model were adapted to each other, one sentence each


@dataclass(frozen=True, slots=True)
class HostRecord:
    """A machine of the run, and its processes by rank."""

    host: str
    ranks: tuple[int, ...]
    devices: tuple[str, ...]
    stages: tuple[str, ...]  # of a split model, with the replica; empty texts if each process has a whole model
    network: str  # interface by which it reaches the others; empty if the backend chooses


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
    hosts: tuple[HostRecord, ...]  # the map of ranks
    identity: dict[str, str]  # what decides the last bits of a sum, besides the config


@dataclass(frozen=True, slots=True)
class SoftwareRecord:
    """What must be known, besides the config, to start the run again."""

    command: str  # that started this process
    commit: str  # of the git repository in which it was started; empty if there is none
    versions: Mapping[str, str]  # of Python and of packages


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """Batches, updates, optimizer and learning rate."""

    batch_size: int
    accumulate: int  # micro-batches per replica, at most
    stages: int  # processes per replica
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
    lr_cap: str  # what limits the peak, such as "for cnn"; empty if scaling alone gives it
    peak_lr: float
    schedule: str
    warmup_updates: int
    warmup_from: float
    seed: int
    exact: bool
    ema_half_life: float | None  # in images


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
class RankStart:
    """One process of a run."""

    device: str
    host: str
    pid: int
    threads: int  # intra-op
    machine: int = 0  # number that the launcher gave its machine
    network: str = ""  # as in HostRecord
    stage: str = ""  # likewise


@dataclass(frozen=True, slots=True)
class RankEpoch:
    """What one process has trained of an epoch, since the epoch began or the run was resumed in it."""

    device: str
    loss: float | None  # mean over its own images, on augmented images; None if it trained none
    images: int
    images_per_second: float  # training only
    weights: str  # hash of its weights and buffers at the end of the epoch: equal on all processes
    sharded: bool  # its weights are shards, and `weights` differs
    data_wait_share: float = 0.0  # fraction of its training time, since it was started, spent waiting for batches
    memory_bytes: int = 0  # peak: on a GPU allocated to tensors, else of the process; 0 in records of older versions
