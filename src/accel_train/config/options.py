"""The configs of the commands."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, field_validator, model_validator

from accel_train.config import panels
from accel_train.config.augmentation_panel import Augment
from accel_train.config.data_panel import Data
from accel_train.config.defaults import CENTRE_SHARE
from accel_train.config.fields import (
    AugmentLevel,
    Config,
    Device,
    Everyday,
    FreeOnResume,
    Name,
    OptimizerName,
    Placement,
    PositiveInt,
    Precision,
    ScalingName,
    UserName,
    UserPath,
    Workers,
    marked,
)
from accel_train.config.finetune_panel import FineTuning
from accel_train.config.mixing_panel import Mixing
from accel_train.config.model_panel import Model
from accel_train.config.optimizers import OPTIMIZERS, Rate
from accel_train.config.strategy_panel import Strategy
from accel_train.config.tracking_panel import Tracking
from accel_train.errors import UserError
from accel_train.system.atomic_files import STDOUT, refuse_unwritable


class TrainConfig(
    Tracking,  # the last base comes first in help and files
    panels.Checkpoints,
    Strategy,
    panels.Machine,
    panels.LearningRate,
    panels.Optimization,
    panels.Batch,
    panels.Run,
    FineTuning,
    Model,
    Mixing,
    Augment,
    Data,
):
    """A training run as a user asks for it. None: chosen from data set, model and the other options."""

    @model_validator(mode="after")
    def _refuse_conflicts(self) -> Self:
        if self.exact and self.compile:
            raise UserError("--exact does not work with --compile yet", "leave one of them out")
        if self.exact and self.cudnn_benchmark:
            raise UserError("--exact does not work with --cudnn-benchmark", "leave one of them out")
        if self.activation_checkpointing and self.compile:
            raise UserError("--activation-checkpointing does not work with --compile yet", "leave one of them out")
        return self


class ResolvedConfig(TrainConfig):
    """A training run with every default filled in; see :func:`accel_train.config.resolve.resolve`."""

    model: str
    epochs: PositiveInt
    augment: AugmentLevel
    batch_size: PositiveInt
    warmup_epochs: NonNegativeFloat
    optimizer: OptimizerName
    lr: PositiveFloat
    lr_scaling: ScalingName
    weight_decay: NonNegativeFloat
    precision: Precision

    @property
    def usual_rate(self) -> Rate:
        """The default learning rate of its model and optimizer."""
        return OPTIMIZERS[self.optimizer].rate(self.model, from_weights=self.starts_from_weights)


class Evaluation(Config):
    """What to evaluate, and on which data."""

    panel = "Evaluation"

    data: UserName | None = None
    """Data to evaluate on, as for train. Default: the run's."""
    split: Literal["val", "test"] = "val"
    """Split to evaluate: val, or test if the data have one."""
    labels: UserPath | None = None
    """File with the labels of the pictures of --data DIR, as for train. Default: their folders are their labels."""
    label_column: Name | None = None
    """Column of the labels, as for train."""
    data_dir: UserPath | None = None
    """Folder of data sets, as for train."""
    model: Name | None = None
    """my.module:function, if the run's model is your own. A run folder is not trusted to name code."""
    weights: Literal["last", "best"] | None = None
    """Weights of the last epoch, or of the best one. Default: last, or best if the run has not finished."""
    batch_size: PositiveInt | None = None
    """Images per process at a time. Default: the run's."""
    precision: Precision | None = None
    """Precision of the computation. Default: the run's."""
    workers: Workers = "auto"
    """Loader workers per process, as for train."""
    predictions: Annotated[UserPath | None, Placement()] = None
    """CSV or Parquet file to write, one row an image: its name, label, prediction and probabilities."""


class EvaluateConfig(panels.Machine, Evaluation):
    """An evaluation of a run's model."""


class Prediction(Config):
    """How to predict the classes of pictures."""

    panel = "Prediction"

    top_k: PositiveInt = 1
    """Classes to name per picture, the most probable ones."""
    threshold: Annotated[float, Field(ge=0, le=1)] | None = None
    """Name no class that is less probable, from 0 to 1. Default: no threshold."""
    csv: Annotated[UserPath | None, Placement()] = None
    """CSV file to write, or - for standard output; one row a picture: its name, classes and probabilities, or why it
    cannot be read."""
    weights: Literal["last", "best"] | None = None
    """Weights of the last epoch, or of the best one. Default: last, or best if the run has not finished."""
    model: Name | None = None
    """my.module:function, if the run's model is your own. A run folder is not trusted to name code."""
    max_pixels: PositiveInt | None = None
    """Most pixels of a picture: one that has more is not decoded. Default: the run's."""
    batch_size: PositiveInt | None = None
    """Most pictures per process at a time. Default: the run's."""
    precision: Precision | None = None
    """Precision of the computation. Default: the run's."""
    workers: Workers = "auto"
    """Loader workers per process, as for train."""

    @field_validator("csv")
    @classmethod
    def _is_file(cls, value: Path | None) -> Path | None:
        if value not in (None, STDOUT):
            refuse_unwritable(value, "--csv")
        return value


class PredictConfig(panels.Machine, Prediction):
    """A prediction of the classes of pictures with a run's model."""


class Preview(Config):
    """What to show of a run before it is trained."""

    panel = "Preview"

    output: Annotated[UserPath, Everyday()] = Path("sheet.png")
    """PNG file to write."""
    images: Annotated[PositiveInt | None, Everyday()] = None
    """Images on the sheet, from the first update on. Default: those of the first update, at most 64."""

    @field_validator("output")
    @classmethod
    def _is_png(cls, value: Path) -> Path:
        refuse_unwritable(value, "--output", ".png")
        return value


class ReportConfig(Config):
    """A report of a run."""

    panel = "Report"

    output: Annotated[UserPath | None, Placement()] = None
    """HTML file to write. Default: report.html in the run folder."""
    data: UserName | None = None
    """Where the data of the run are now, for its pictures. Default: as the run has them."""
    labels: UserPath | None = None
    """File with the labels of the pictures, likewise."""
    data_dir: UserPath | None = None
    """Folder of data sets, as for train."""
    model: Name | None = None
    """my.module:function, if the run's model is your own. A run folder is not trusted to name code."""
    device: Annotated[Device, Placement()] = "auto"
    """Device that predicts the validation images, if the run has not done it."""

    @field_validator("output")
    @classmethod
    def _is_file(cls, value: Path | None) -> Path | None:
        if value is not None:
            refuse_unwritable(value, "--output", of_run="report.html")
        return value


class PreviewConfig(Preview, TrainConfig):
    """A preview of the images of a training run."""


def changed_fields(config: TrainConfig, given: Mapping[str, str]) -> tuple[str, ...]:
    """Return the fields whose values are worth showing, in the order of the help.

    `given` is the origin of each value that is no default. Those that the user typed are shown; those of a file, which
    may hold all values of an earlier run, only if they differ from the default.
    """
    typed = {name for name, origin in given.items() if origin in TYPED}
    fields = TrainConfig.model_fields.items()
    return tuple(
        name
        for name, field in fields
        if name in typed or (name in given and getattr(config, name) not in (field.default, _USUAL.get(name)))
    )


_USUAL = {"fit": "crop", "eval_crop": CENTRE_SHARE}
"""What a resolved config of pictures has of options that were left out."""


PLACEMENT = marked(TrainConfig, Placement)
"""Fields that change where and how fast a run is computed, not its result."""

FREE_ON_RESUME = marked(TrainConfig, Placement, FreeOnResume)
"""Fields in which a resumed run may differ from the stored one; of `epochs` it may only have more."""

EVERYDAY = marked(TrainConfig, Everyday)
"""Fields that ``train --help`` shows."""

TYPED = ("flag", "given")
"""Origins of values that the user gave on the command line or in Python."""

FROM_RUN = "from the run"
"""Origin of values of the run that --resume names."""
