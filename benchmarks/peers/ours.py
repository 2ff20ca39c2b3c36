"""accel_train with all its loggers, as the command `train` runs it."""

import tempfile
from pathlib import Path

from torch import nn

from accel_train.config.options import TrainConfig
from accel_train.events import RunStarted, UpdateDone
from accel_train.loggers.select import logged
from accel_train.run.build import build_run
from accel_train.run.session import Session
from accel_train.system.signals import StopSignals
from benchmarks.peers.work import LEARNING_RATE, RANK, WEIGHT_DECAY, Clock, Work


def train(work: Work, clock: Clock) -> nn.Module:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return _train(_config(work, Path(folder)), clock)


def _config(work: Work, folder: Path) -> TrainConfig:
    return TrainConfig(
        data=work.data,
        limit=work.images,
        augment="none",
        model=work.model,
        epochs=work.epochs,
        batch_size=work.batch_size,
        lr=LEARNING_RATE,
        lr_scaling="none",
        weight_decay=WEIGHT_DECAY,
        warmup_epochs=0,
        precision=work.precision,
        compile=work.compile,
        device=work.device,
        output=folder / "run",
    )


def _train(config: TrainConfig, clock: Clock) -> nn.Module:
    """Return the trained model, which `accel_train.train` keeps to itself."""
    signals = StopSignals(rank=RANK).listen()
    run = build_run(config, dict.fromkeys(config.model_fields_set, "flag"))
    for event in logged(Session(run, signals).events(), rank=RANK):
        if isinstance(event, RunStarted):
            signals.training_began()
        elif isinstance(event, UpdateDone):
            clock.tick()
    signals.training_ended()
    return run.training.updater.model
