"""The options of a training run, one class a panel of the help; the docstring under a field is its help."""

import math
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, NonNegativeFloat, PositiveFloat, field_validator, model_validator

from accel_train.config.durations import parse_duration, parse_interval
from accel_train.config.fields import (
    Config,
    Device,
    Everyday,
    FreeOnResume,
    NonNegativeInt,
    OptimizerName,
    OutputFolder,
    Placement,
    PositiveInt,
    Precision,
    RuleName,
    ScalingName,
    UserName,
    split_list,
)
from accel_train.errors import UserError


class Run(Config):
    """How long to train, where the results go, and what is logged."""

    panel = "Run"

    epochs: Annotated[PositiveInt | None, Everyday(), FreeOnResume()] = None
    """Passes over the training data. A resumed run may have more, not fewer. Default: by data set."""
    seed: Annotated[int, Field(ge=0, lt=2**63), Everyday()] = 0
    """Seed of weights, image order, augmentation and dropout."""
    output: Annotated[OutputFolder | None, Everyday(), Placement()] = None
    """Run folder: a new or empty one, or that of the run to resume. Default: runs/DATA_MODEL_NUMBER."""
    exact: Annotated[bool, Everyday()] = False
    """Bit-identical results on any number of processes: fixed gradient reduction order, one thread by default."""
    target_accuracy: Annotated[float | None, Field(gt=0, le=1)] = None
    """Stop when validation accuracy reaches this fraction."""
    patience: PositiveInt | None = None
    """Stop after this many epochs without a new best validation accuracy."""
    time_limit: Annotated[str | None, Placement()] = None
    """Save and stop before this much time has passed, such as 3h50m."""
    on_nan: Annotated[Literal["stop", "rollback"], FreeOnResume()] = "stop"
    """When loss or weights are no longer finite: stop, or roll back to the last checkpoint and skip the data since."""
    log_every: Annotated[PositiveInt, FreeOnResume()] = 20
    """Updates between progress records in metrics.jsonl."""
    rank_lines: Annotated[Literal["epoch", "none"], FreeOnResume()] = "epoch"
    """With several processes, a line of each every epoch: its own loss, images, speed and hash of its weights."""
    watch_every: Annotated[NonNegativeInt, FreeOnResume()] = 100
    """Updates between checks that all processes hold the same weights. 0: no checks."""
    profile: Annotated[bool, Placement()] = False
    """Trace a few updates into the run folder, and print where their time went."""
    report: Annotated[bool, FreeOnResume()] = True
    """At the end, write predictions.csv and report.html into the run folder."""

    @field_validator("time_limit")
    @classmethod
    def _is_duration(cls, value: str | None) -> str | None:
        if value is not None:
            parse_duration(value)
        return value


class Batch(Config):
    """How many images make an update."""

    panel = "Batch"

    batch_size: Annotated[PositiveInt | None, Everyday()] = None
    """Images per process per micro-batch. Default: 64, less for small data sets."""
    global_batch_size: Annotated[PositiveInt | None, Everyday()] = None
    """Images per update, all processes. Default: batch size × processes × accumulate."""
    accumulate: Annotated[PositiveInt | None, Everyday(), Placement()] = None
    """Micro-batches per process per update. Default: 1, or what --global-batch-size needs."""
    auto_micro_batch: bool = False
    """Use the largest batch size that fits into memory, at the same global batch."""

    @model_validator(mode="after")
    def _refuse_accumulate_without_batch_size(self) -> Self:
        if self.accumulate and self.global_batch_size and not self.batch_size:
            raise UserError(
                f"--accumulate {self.accumulate} and --global-batch-size {self.global_batch_size} "
                "leave the batch size open",
                "add --batch-size, or leave out --accumulate: it follows from the others",
            )
        return self


class Optimization(Config):
    """How weights are updated."""

    panel = "Optimization"

    optimizer: Annotated[OptimizerName | None, Everyday()] = None
    """Optimizer; sgd has Nesterov momentum 0.9, and lars, lamb and novograd are for large batches. Default: sgd; adamw
    for transformers with --weights."""
    precision: Annotated[Precision | None, Everyday()] = None
    """Precision of the computation; fp64 is for comparing runs. Default: the launcher's, else fp32."""
    weight_decay: NonNegativeFloat | None = None
    """Weight decay; norms and biases have none. Default: by optimizer, such as 5e-4 for sgd and 0.05 for adamw."""
    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Label smoothing: probability spread evenly over all classes."""
    clip_norm: PositiveFloat | None = None
    """Maximum gradient norm of an update. Default: no clipping."""
    ema: PositiveFloat | None = None
    """EMA half-life in images; the averaged weights are evaluated and exported. Default: no EMA."""

    @field_validator("ema")
    @classmethod
    def _is_no_decay(cls, value: float | None) -> float | None:
        if value is not None and value < 1:
            images = 64 * math.log(0.5) / math.log(value)
            raise UserError(
                f"--ema {value:g} is a half-life in images, not a decay",
                f"a decay of {value:g} per update of 64 images is --ema {images:.0f}",
            )
        return value


class LearningRate(Config):
    """The learning rate of every update."""

    panel = "Learning rate"

    lr: Annotated[PositiveFloat | None, Everyday()] = None
    """Peak learning rate; with --lr-scaling, that at the base batch. Default: by model and optimizer."""
    lr_scaling: Annotated[ScalingName | None, Everyday()] = None
    """How the learning rate scales with the global batch. Default: none if --lr is given, else by optimizer, such as
    linear for sgd and sqrt for adamw."""
    lr_base_batch: Annotated[int | None, Field(gt=0, le=1_000_000_000)] = None
    """Global batch that --lr refers to. Default: 256."""
    max_lr: PositiveFloat | None = None
    """Upper limit of the peak that scaling gives. Default: by model and optimizer; none with --lr or --lr-scaling."""
    schedule: RuleName = "cosine"
    """Learning rate schedule after warmup."""
    warmup_epochs: NonNegativeFloat | None = None
    """Epochs of linear warmup. Default: 1, at most a fifth of the run."""
    warmup_from: NonNegativeFloat | None = None
    """Learning rate of the first update. Default: the unscaled --lr if scaling raises it, else 1 % of the peak."""
    milestones: Annotated[tuple[float, ...] | None, BeforeValidator(split_list)] = None
    """Epochs at which --schedule step multiplies the learning rate by --gamma, such as 30,60,80."""
    gamma: Annotated[float | None, Field(gt=0, lt=1)] = None
    """Factor of --schedule step. Default: 0.1."""

    @model_validator(mode="after")
    def _refuse_without_effect(self) -> Self:
        if self.schedule == "step" and not self.milestones:
            raise UserError("--schedule step has no milestones", "add its epochs, such as --milestones 30,60")
        if self.schedule != "step":
            for name, value in (("milestones", self.milestones), ("gamma", self.gamma)):
                if value is not None:
                    raise UserError(f"--{name} needs --schedule step, not {self.schedule}", "add --schedule step")
        for name, value in (("lr-base-batch", self.lr_base_batch), ("max-lr", self.max_lr)):
            if value is not None and self.lr_scaling == "none":
                hint = f"leave --{name} out, or choose --lr-scaling linear or sqrt"
                raise UserError(f"--{name} has no effect with --lr-scaling none", hint)
            if value is not None and self.lr is not None and self.lr_scaling is None:
                raise UserError(f"--{name} has no effect with --lr alone", "add --lr-scaling linear or sqrt")
        if self.warmup_epochs == 0 and self.warmup_from is not None:
            raise UserError("--warmup-from has no effect with --warmup-epochs 0", "leave one of them out")
        return self


class Machine(Config):
    """Where to run, for every command."""

    panel = "Hardware"

    processes: Annotated[PositiveInt | None, Everyday(), Placement()] = None
    """Processes to start on this machine; under a launcher, the number that it must have started in all. Default: 1."""
    device: Annotated[Device, Everyday(), Placement()] = "auto"
    """Device of every process. auto: a GPU if there is one and the launcher does not ask for CPUs."""
    backend: Annotated[Literal["gloo", "nccl", "mpi"] | None, Placement()] = None
    """Communication backend. Default: nccl for GPUs, gloo for CPUs."""
    timeout: Annotated[int, Field(gt=0, le=1_000_000), Placement()] = 300
    """Seconds to wait for another process."""
    threads: Annotated[int | None, Field(gt=0, le=1024), Placement()] = None
    """CPU threads per process. Default: OMP_NUM_THREADS, else its share of the cores."""


class Checkpoints(Config):
    """What is saved, and what a run starts from."""

    panel = "Checkpoints"

    resume: Annotated[UserName, Everyday(), Placement()] = "auto"
    """auto: resume the unfinished run in the output folder; never; or a run or checkpoint to resume from."""
    save_every: Annotated[str, FreeOnResume()] = "1epoch"
    """Save interval, such as 1epoch, 500updates or 30s."""
    keep: Annotated[PositiveInt | None, FreeOnResume()] = None
    """Checkpoints to keep, besides that of the best epoch. Default: 2; of a finished run, the last one."""

    @field_validator("save_every")
    @classmethod
    def _is_interval(cls, value: str) -> str:
        return str(parse_interval(value))
