"""Train an image classifier with one command: the same run on one CPU or on many GPUs.

    for event in accel_train.train(accel_train.TrainConfig(data="digits")):
        print(event)
    print(accel_train.evaluate("runs/digits_cnn_001").accuracy)
    loaded = accel_train.load("runs/digits_cnn_001")  # loaded.model, loaded.classes, loaded.preprocess

Importing the package imports nothing else: the command line handles Ctrl-C first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_train.config.options import EvaluateConfig, TrainConfig
    from accel_train.events import Evaluated, Event
    from accel_train.run.loaded import LoadedRun

__version__ = "0.1.0"
__all__ = ["EvaluateConfig", "TrainConfig", "__version__", "evaluate", "load", "train"]


def train(config: TrainConfig) -> Iterator[Event]:
    """Collective: carry out a run and yield its events; every process of the run calls this.

    It writes the same run folder as `accel_train train`, but no rank logs, and prints nothing. In a notebook the output
    of the cell shows the run as it trains; there `train(config)` as the last line of a cell needs no loop.

    Raises:
        UserError: something asked for cannot be had, with a hint.
    """
    from accel_train.distributed.environment import launched_rank
    from accel_train.distributed.schedulers import join
    from accel_train.loggers.notebook import LiveRun
    from accel_train.loggers.select import logged
    from accel_train.run.session import train
    from accel_train.trackers.select import TRACKERS_ROW

    join()
    loggers = ("metrics.jsonl", "notebook")
    return LiveRun(logged(train(config), rank=launched_rank(), only=loggers, more=[TRACKERS_ROW]))


def evaluate(run: Path | str, config: EvaluateConfig | None = None) -> Evaluated:
    """Collective: return loss, accuracies, scores of each class and calibration of the model in a run folder.

    Raises:
        UserError: the folder is no run's, or the data do not fit its model.
    """
    from accel_train.config.options import EvaluateConfig
    from accel_train.distributed.schedulers import join
    from accel_train.run.evaluate import evaluate

    join()
    return evaluate(_folder(run), config or EvaluateConfig())


def load(run: Path | str, *, weights: str | None = None, model: str | None = None) -> LoadedRun:
    """Load the model of a run on the CPU in fp32, with its classes, and its preprocessing of a picture.

    `weights` is "last" or "best", by default the last if the run has finished; `model` is my.module:function if the
    run's model is your own.

    Raises:
        UserError: the folder is no run's, has no such weights, or names code that you have not.
    """
    from accel_train.run.loaded import load

    return load(_folder(run), weights=weights, model=model)


def _folder(run: Path | str) -> Path:
    if run == "":  # pathlib takes it as the current folder
        from accel_train.errors import UserError

        raise UserError("the path of the run is empty", "give a run folder")
    return Path(run)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import the configs on first use."""
        if name in ("EvaluateConfig", "TrainConfig"):
            from accel_train.config import options

            return getattr(options, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
