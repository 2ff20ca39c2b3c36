"""accel_train, built and run as its command `train` does it, with all its sinks."""

import tempfile
from pathlib import Path

from torch import nn

from accel_train.config.options import TrainConfig
from accel_train.distributed import accelerator as distributed
from accel_train.events import UpdateDone
from accel_train.loggers.select import open_sinks
from accel_train.run.build import build_run
from accel_train.run.session import Session
from accel_train.system.signals import Interruption
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
    interruption = Interruption(rank=RANK)
    run = build_run(config, dict.fromkeys(config.model_fields_set, "flag"))
    session = Session(run, interruption)
    accelerator = run.accelerator
    with open_sinks(
        run.place.folder,
        rank=accelerator.process_index,
        world_size=accelerator.num_processes,
        device=distributed.device_name(accelerator),
        quiet=False,
        json=False,
        resumed=False,
    ) as sinks:
        interruption.training_began()
        for event in session.events():
            for sink in sinks:
                sink(event)
            if isinstance(event, UpdateDone):
                clock.tick()
        interruption.training_ended()
    return run.task.model
