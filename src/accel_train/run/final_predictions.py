"""Writes predictions.csv of a run that is complete: the prediction of its last weights for each validation image."""

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_train.data.image_names import image_names
from accel_train.data.loader import batches
from accel_train.data.worker_batches import Batch
from accel_train.distributed import process_group
from accel_train.history.files import PREDICTIONS
from accel_train.loggers.text import quoted
from accel_train.metrics.predictions import Predictions, write_predictions
from accel_train.run.build import Run
from accel_train.training.evaluate import evaluate
from accel_train.training.predictions import PredictionRows


def remove_earlier(folder: Path) -> None:
    """Remove the predictions of the weights that a run is about to replace."""
    with suppress(OSError):
        (folder / PREDICTIONS).unlink(missing_ok=True)


def write_final_predictions(run: Run) -> str | None:
    """Collective: write the predictions; return what has failed, a sentence for the user.

    Nothing raises: the run is complete.
    """
    folder = run.resume_point.folder
    path = folder / PREDICTIONS
    try:
        failure = _predict_and_write(run, path)
    except Exception as error:  # of torch, which raises any type
        failure = _text(error)
    by_hand = f"accel_train evaluate {quoted(folder)} --predictions {quoted(path)}"
    return f"{PREDICTIONS} was not written: {failure}; `{by_hand}` writes it" if failure else None


def _predict_and_write(run: Run, path: Path) -> str:
    """Collective: write the predictions on rank 0; return what has failed on any rank."""
    validation, ema, group = run.training.validation, run.training.updater.ema, run.processes.group
    rows, loader, failure = PredictionRows(), _Unfailing(validation.loader), ""

    def tick() -> bool:
        run.watchdog.tick()
        return False

    try:
        with ema.in_place_of_weights() if ema else nullcontext():
            evaluate(
                validation.accelerator,
                validation.model,
                loader,
                validation.transform,
                validation.classes,
                interrupted=tick,
                rows=rows,
            )
    except Exception as error:
        failure = _text(error)
    failure = _text(loader.failure) if loader.failure else failure
    if failed := [text for text in process_group.exchange_texts(group, failure) if text]:
        return failed[0]
    names = image_names(run.data.val)
    found = rows.gathered(group, run.contents.classes, names)
    return _write(path, found) if run.processes.is_main else ""


def _write(path: Path, predictions: Predictions) -> str:
    try:
        write_predictions(path, predictions)
    except OSError as error:
        return f"{error.strerror}: {error.filename}"
    return ""


@dataclass
class _Unfailing:
    """The batches of a loader; if one cannot be read, the last one again: others rely on as many forward passes."""

    loader: Any
    failure: Exception | None = None

    def __iter__(self) -> Iterator[Batch]:
        left, batch = len(self.loader), None
        try:
            for batch in batches(self.loader):
                yield batch
                left -= 1
        except Exception as error:
            self.failure = error
            yield from [batch] * left if batch else []


def _text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
