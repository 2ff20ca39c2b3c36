"""Run folders that hold what runs have stored, without any training."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from accel_train.checkpoints.run_folder import config_text
from accel_train.events import EpochByRank, EpochEnd, Event, Progress, RankEpoch, RunEnded, RunStarted
from accel_train.history.run import RunHistory, read_run
from accel_train.loggers.jsonl import JsonLines
from accel_train.metrics.predictions import Predictions, write_predictions
from helpers.run_events import STARTED

KINDS = (RunStarted, Progress, EpochByRank, EpochEnd, RunEnded)


def progress(update: int, **changed: Any) -> Progress:
    values = {"epoch": 1, "lr": 0.1, "local_loss": 1.5, "gradient_norm": 1 / 3, "local_ids_hash": "00ff"}
    return Progress(update=update, **values | changed)


def epoch(number: int, **changed: Any) -> EpochEnd:
    """Return the end of an epoch of 22 updates."""
    values: dict[str, Any] = {"train_loss": 0.3, "train_accuracy": None, "val_loss": 2.0, "val_accuracy": 0.5}
    values |= {"ema_val_loss": None, "ema_val_accuracy": None, "lr": 0.1, "images_per_second": 7.0, "seconds": 2.0}
    return EpochEnd(epoch=number, update=22 * number, **{"best": True, **values, **changed})


def ended(updates: int = 44, **changed: Any) -> RunEnded:
    values = {"data_wait_share": 0.0, "save_share": 0.0, "watch_share": 0.0, "seconds_to_first_update": 0.1}
    values |= {"train_accuracy": 1.0, "val_accuracy": 0.5, "best_val_accuracy": 0.5, "images_per_second": 9.0}
    values |= {"epochs": updates // 22, "best_epoch": 1, "gpu_memory_bytes": 0, "seconds": 3.0}
    return RunEnded(reason="all epochs done", updates=updates, **values | changed)


def by_rank(update: int, speed: float = 7.0) -> EpochByRank:
    rank = RankEpoch(device="cpu", loss=None, images=4, images_per_second=speed, weights="12ab", sharded=False)
    return EpochByRank(epoch=1, update=update, ranks=(rank, rank))


def write_metrics(folder: Path, events: Sequence[Event]) -> None:
    with (folder / "metrics.jsonl").open("w", encoding="utf-8") as stream:
        log = JsonLines(stream, KINDS)
        for event in events:
            log(event)


def write_run(folder: Path, *events: Event, weights: bool = True, **config: Any) -> Path:
    """Write the folder of a run with these events after its start, and these values of its config."""
    folder.mkdir(parents=True)
    values = {**STARTED.config, **config}
    (folder / "config.yaml").write_text(
        config_text(values, dict.fromkeys(config, "flag"), frozenset()), encoding="utf-8"
    )
    (folder / "config.json").write_text("{}", encoding="utf-8")
    write_metrics(folder, (replace(STARTED, config=values), *events))
    if weights:
        (folder / "model.safetensors").touch()
    return folder


def predicting_run(folder: Path, predicted: Mapping[str, int] | None, labels: Mapping[str, int]) -> RunHistory:
    """Return a finished run, with a prediction for each image by name, unless they are None."""
    found = read_run(write_run(folder, epoch(1), ended(22)))
    if predicted is not None:
        names = tuple(predicted)
        label = np.array([labels[name] for name in names])
        of = np.array(list(predicted.values()))
        half = np.full(len(names), 0.5, dtype=np.float32)
        table = Predictions(tuple("0123456789"), names, label, of, half, half, np.where(label == of, 1, 2))
        write_predictions(folder / "predictions.csv", table)
    return found
