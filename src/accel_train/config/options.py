"""The configuration of a run: each field is a flag and a YAML key, its description the help text."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.config import JsonDict

from accel_train.config.durations import parse_duration, parse_interval
from accel_train.errors import UserError

_DATA: JsonDict = {"panel": "Data"}
_MODEL: JsonDict = {"panel": "Model"}
_BATCH: JsonDict = {"panel": "Batch"}
_OPTIMIZATION: JsonDict = {"panel": "Optimization"}
_SCHEDULE: JsonDict = {"panel": "Learning rate"}
_RUN: JsonDict = {"panel": "Run"}
_CHECKPOINTS: JsonDict = {"panel": "Checkpoints"}
_HARDWARE: JsonDict = {"panel": "Hardware"}

Augmentation = Literal["none", "light", "standard"]
Precision = Literal["fp32", "tf32", "bf16", "fp16", "fp64"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Cache = Literal["auto", "device", "ram", "off"]


class Config(BaseModel):
    """Frozen, without unknown fields, NaN or infinities."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class DataConfig(Config):
    """What every command that reads data needs."""

    data: str = Field(
        "digits",
        json_schema_extra=_DATA,
        description="digits, fashion-mnist, mnist, kmnist, cifar10, cifar100, svhn, a folder of pictures "
        "(DIR/train/CLASS/… and DIR/val/CLASS/…, or DIR/CLASS/…), synthetic[:N,C,H,W,K] or my.module:function.",
    )
    data_dir: Path | None = Field(
        None, json_schema_extra=_DATA, description="Where data sets lie or are downloaded to."
    )
    workers: str = Field(
        "auto",
        json_schema_extra=_DATA,
        description="Loader workers per process; never changes the result. auto: by cores and device, 0 in memory.",
    )

    @field_validator("workers", mode="before")
    @classmethod
    def _is_count(cls, value: object) -> str:
        if value != "auto" and not str(value).isdecimal():
            raise UserError(f"--workers {value} is neither auto nor a number", "give auto, or 0 or more")
        return str(value)


class HardwareConfig(Config):
    """Where to run; none of it changes what is computed."""

    device: Device = Field("auto", json_schema_extra=_HARDWARE, description="Device of every process.")
    processes: int | None = Field(
        None,
        ge=1,
        json_schema_extra=_HARDWARE,
        description="Start this many processes on this machine; under a launcher, insist on this many in all.",
    )
    backend: Literal["gloo", "nccl", "mpi"] | None = Field(
        None,
        json_schema_extra=_HARDWARE,
        description="Communication backend. Unset: NCCL for GPUs, Gloo for CPUs.",
    )
    timeout: int = Field(300, gt=0, json_schema_extra=_HARDWARE, description="Seconds to wait for another process.")
    threads: int | None = Field(
        None,
        ge=1,
        json_schema_extra=_HARDWARE,
        description="Threads per process. Unset: OMP_NUM_THREADS, or all cores.",
    )


class TrainConfig(HardwareConfig, DataConfig):
    """One training run. None means: chosen from the data set, the model or the other options."""

    strategy: Literal["auto", "ddp", "fsdp2"] = Field(
        "auto",
        json_schema_extra=_HARDWARE,
        description="A copy of the model for each process (ddp), or a part each (fsdp2). auto: as the launcher says.",
    )

    val_fraction: float | None = Field(
        None,
        gt=0,
        lt=1,
        json_schema_extra=_DATA,
        description="Share of a folder without train/ and val/ to validate on. Unset: 0.2.",
    )
    cache: Cache = Field(
        "auto",
        json_schema_extra=_DATA,
        description="Where images held in memory lie: on each device; in RAM, once for all processes of a machine; "
        "or in each process (off). auto: the first of these that works.",
    )
    limit: int | None = Field(
        None,
        gt=0,
        json_schema_extra=_DATA,
        description="Use only this many training and validation images, spread evenly; to try things out.",
    )
    image_size: int | None = Field(
        None,
        gt=0,
        json_schema_extra=_DATA,
        description="Height and width that the model sees, in pixels. Unset: the data's, or the model's if fixed.",
    )
    augment: Augmentation | None = Field(
        None,
        json_schema_extra=_DATA,
        description="Augmentation; what each level does depends on the data set.",
    )
    model: str | None = Field(
        None,
        json_schema_extra=_MODEL,
        description="cnn, mlp, wide_resnet, wide_resnet_DEPTH_WIDTH, any torchvision classifier, or "
        "my.module:function.",
    )
    epochs: int | None = Field(None, gt=0, json_schema_extra=_RUN, description="Passes over the training data.")
    batch_size: int | None = Field(
        None, gt=0, json_schema_extra=_BATCH, description="Images per process per micro-batch."
    )
    accumulate: int | None = Field(
        None, gt=0, json_schema_extra=_BATCH, description="Micro-batches per update. Unset: 1, or what fits."
    )
    auto_micro_batch: bool = Field(
        False,
        json_schema_extra=_BATCH,
        description="Find the largest batch size that fits into memory, and keep the global batch.",
    )
    global_batch_size: int | None = Field(
        None,
        gt=0,
        json_schema_extra=_BATCH,
        description="Images per update over all processes. Unset: batch size × processes × accumulate.",
    )
    optimizer: Literal["sgd", "adamw"] = Field(
        "sgd", json_schema_extra=_OPTIMIZATION, description="sgd has Nesterov momentum 0.9."
    )
    weight_decay: float | None = Field(
        None,
        ge=0,
        json_schema_extra=_OPTIMIZATION,
        description="Not applied to norms and biases. Unset: 5e-4 for sgd, 0.05 for adamw.",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, json_schema_extra=_OPTIMIZATION, description="Probability spread over all classes."
    )
    clip_norm: float | None = Field(
        None, gt=0, json_schema_extra=_OPTIMIZATION, description="Limit of an update's gradient norm."
    )
    precision: Precision | None = Field(
        None,
        json_schema_extra=_OPTIMIZATION,
        description="Unset: what the launcher's configuration says, else fp32. fp64 is for checking sameness.",
    )
    compile: bool = Field(
        False,
        json_schema_extra=_MODEL,
        description="Compile the model: the first update then takes a minute, the others less on a GPU. "
        "CPUs gain little.",
    )
    cudnn_benchmark: bool = Field(
        False,
        json_schema_extra=_MODEL,
        description="On a GPU, time cuDNN's convolutions for each new shape and keep the fastest, so that two runs may "
        "compute by different ones.",
    )
    ema: float | None = Field(
        None,
        gt=0,
        json_schema_extra=_OPTIMIZATION,
        description="Average the weights with this half-life, in images; the average is what is judged and kept.",
    )
    lr: float | None = Field(
        None,
        gt=0,
        json_schema_extra=_SCHEDULE,
        description="Peak learning rate; with a scaling rule, the one at the base batch.",
    )
    lr_scaling: Literal["none", "linear", "sqrt"] | None = Field(
        None,
        json_schema_extra=_SCHEDULE,
        description="How the learning rate follows the global batch. Unset: none if --lr is given, else linear "
        "for sgd and sqrt for adamw.",
    )
    lr_base_batch: int | None = Field(
        None, gt=0, json_schema_extra=_SCHEDULE, description="Global batch that --lr refers to. Unset: 256."
    )
    warmup_epochs: float | None = Field(
        None,
        ge=0,
        json_schema_extra=_SCHEDULE,
        description="Epochs in which the learning rate rises, per update.",
    )
    warmup_from: float | None = Field(
        None,
        ge=0,
        json_schema_extra=_SCHEDULE,
        description="Learning rate of update 0. Unset: the base one if a rule raises it, else 1 % of the peak.",
    )
    schedule: Literal["constant", "cosine", "step", "linear"] = Field(
        "cosine", json_schema_extra=_SCHEDULE, description="Learning rate after warmup."
    )
    milestones: tuple[float, ...] | None = Field(
        None,
        json_schema_extra=_SCHEDULE,
        description="Epoch at which --schedule step multiplies by --gamma; once for each.",
    )
    gamma: float | None = Field(
        None, gt=0, lt=1, json_schema_extra=_SCHEDULE, description="Factor of --schedule step. Unset: 0.1."
    )
    target_accuracy: float | None = Field(
        None,
        gt=0,
        le=1,
        json_schema_extra=_RUN,
        description="Stop once validation accuracy reaches this share.",
    )
    patience: int | None = Field(
        None, gt=0, json_schema_extra=_RUN, description="Stop after this many epochs without a better one."
    )
    seed: int = Field(
        0,
        ge=0,
        lt=2**63,
        json_schema_extra=_RUN,
        description="Fixes weights, order, augmentation and dropout.",
    )
    output: Path | None = Field(
        None, json_schema_extra=_RUN, description="Run folder, new or empty. Unset: a fresh one under runs/."
    )
    init_from: Path | None = Field(
        None,
        json_schema_extra=_MODEL,
        description="Begin with the weights of this run or file, and nothing else of it.",
    )
    exact: bool = Field(
        False,
        json_schema_extra=_RUN,
        description="The same bits on any number of processes: one order of adding gradients, one thread unless given.",
    )
    on_nan: Literal["stop", "rollback"] = Field(
        "stop",
        json_schema_extra=_RUN,
        description="When loss or weights are no longer finite: stop, or go back to the last checkpoint and leave out "
        "the updates since.",
    )
    log_every: int = Field(
        20, gt=0, json_schema_extra=_RUN, description="Updates between two progress records in metrics.jsonl."
    )
    watch_every: int = Field(
        100, ge=0, json_schema_extra=_RUN, description="Updates between two checks that all processes agree; 0: none."
    )
    profile: bool = Field(
        False,
        json_schema_extra=_RUN,
        description="Trace a few updates into the run folder, and show where their time went.",
    )
    time_limit: str | None = Field(
        None, json_schema_extra=_RUN, description="Save and stop before this much time is over, as in 3h50m."
    )
    save_every: str = Field(
        "1epoch", json_schema_extra=_CHECKPOINTS, description="When to save: 1epoch, 500updates or 10min."
    )
    keep: int = Field(
        2, ge=1, json_schema_extra=_CHECKPOINTS, description="Checkpoints to keep, besides that of the best epoch."
    )
    resume: str = Field(
        "auto",
        json_schema_extra=_CHECKPOINTS,
        description="auto: go on where the run in the output folder was; never; or a checkpoint or run to go on from.",
    )

    @field_validator("save_every")
    @classmethod
    def _is_interval(cls, value: str) -> str:
        return str(parse_interval(value))

    @field_validator("time_limit")
    @classmethod
    def _is_duration(cls, value: str | None) -> str | None:
        if value is not None:
            parse_duration(value)
        return value

    @model_validator(mode="after")
    def _refuse_what_has_no_effect(self) -> Self:
        if self.schedule == "step" and not self.milestones:
            raise UserError("--schedule step has no milestones", "add --milestones EPOCH, once for each drop")
        if self.schedule != "step":
            for name, value in (("milestones", self.milestones), ("gamma", self.gamma)):
                if value is not None:
                    raise UserError(f"--{name} has no effect with --schedule {self.schedule}", "add --schedule step")
        if self.lr_scaling == "none" and self.lr_base_batch is not None:
            raise UserError("--lr-base-batch has no effect with --lr-scaling none", "choose linear or sqrt")
        if self.warmup_epochs == 0 and self.warmup_from is not None:
            raise UserError("--warmup-from has no effect with --warmup-epochs 0", "leave one of them out")
        if self.exact and self.compile:
            raise UserError("--exact does not work with --compile yet", "leave one of them out")
        if self.exact and self.cudnn_benchmark:
            raise UserError("--exact does not work with --cudnn-benchmark", "leave one of them out")
        if self.exact and self.strategy == "fsdp2":
            raise UserError("--exact does not work with --strategy fsdp2 yet", "leave one of them out")
        if self.auto_micro_batch and self.strategy == "fsdp2":
            raise UserError("--auto-micro-batch does not work with --strategy fsdp2 yet", "give --batch-size")
        return self


class EvaluateConfig(HardwareConfig, DataConfig):
    """One evaluation of a run's model. `data` unset means the run's own."""

    data: str | None = Field(  # type: ignore[assignment]
        None, json_schema_extra=_DATA, description="Data to evaluate on, as for train. Unset: the run's own."
    )
    weights: Literal["last", "best"] = Field(
        "last", json_schema_extra=_MODEL, description="Weights of the last epoch, or of the best one."
    )
    batch_size: int | None = Field(
        None, gt=0, json_schema_extra=_BATCH, description="Images per process at a time. Unset: the run's."
    )
    precision: Precision | None = Field(None, json_schema_extra=_MODEL, description="Unset: the run's.")


PLACEMENT = frozenset(
    {"processes", "device", "backend", "timeout", "threads", "strategy", "workers", "output", "accumulate"}
    | {"resume", "time_limit", "profile", "cache"}
)
"""Fields that only place a run: they change where and how fast it is computed, not what."""

FREE_ON_RESUME = PLACEMENT | {"epochs", "data_dir", "log_every", "watch_every", "save_every", "keep", "on_nan"}
"""Fields in which a resumed run may differ from what it was; of `epochs` it may only have more."""
