"""Writes the report of a run: at its end, or later from what its folder holds."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from accel_train.checkpoints.run_folder import Description
from accel_train.errors import LocalError, UserError
from accel_train.events import Event, Notice, ReportWritten
from accel_train.history.config_file import read_settings
from accel_train.history.files import PREDICTIONS, REPORT
from accel_train.history.run import read_run
from accel_train.loggers.text import quoted
from accel_train.metrics.predictions import Predictions, read_predictions
from accel_train.report.page import Content, page
from accel_train.report.pictures import Sample
from accel_train.run.build import Run
from accel_train.run.describe import describe_model
from accel_train.run.report_pictures import Images
from accel_train.system.atomic_files import write_file


def final_report(run: Run, notes: Sequence[str] = ()) -> Iterator[Event]:
    """Collective: write the report of a run that is complete on rank 0; a failure is only noted.

    `notes` are sentences for its reader.
    """
    folder = run.resume_point.folder
    problem = run.processes.on_main(lambda: _written_or_problem(run, folder, notes))
    if problem:
        yield Notice(f"{REPORT} was not written: {problem}; `accel_train report {quoted(folder)}` writes it")
    else:
        yield ReportWritten(str(folder / REPORT))


def write_report(
    path: Path,
    folder: Path,
    predictions: Predictions | None,
    images: Images | None,
    *,
    weights: str,
    notes: Sequence[str] = (),
) -> Sequence[str]:
    """Write the page of a run; without its images it has no pictures. Return the notes on it.

    Raises:
        UserError: the folder holds no run.
        OSError: the page cannot be written.
    """
    shown, samples = images, list[Sample]()
    if images and predictions and not images.shows(predictions):
        shown, notes = None, [*notes, f"{PREDICTIONS} is not of the run's validation images: there are no pictures"]
    try:
        samples = shown.samples() if shown else []
    except LocalError as error:
        notes = [*notes, f"the first training images cannot be shown: {error.message}"]
    content = Content(
        history=read_run(folder),
        settings=read_settings(folder),
        predictions=predictions,
        weights=weights,
        mistakes=shown.mistakes(predictions) if shown and predictions else (),
        samples=samples,
        notes=notes,
    )
    write_file(path, page(content).encode("utf-8"))
    return notes


def stored_predictions(folder: Path, description: Description) -> Predictions | None:
    """Return the predictions in a run folder; None if there are none.

    Raises:
        UserError: they are damaged.
    """
    path = folder / PREDICTIONS
    return read_predictions(path, description.classes) if path.exists() else None


def _written_or_problem(run: Run, folder: Path, notes: Sequence[str]) -> str:
    """Write the report; return what has failed. Nothing raises: the run is complete."""
    try:
        description = describe_model(run)
        images = Images(run.config, run.data, description)
        predictions = stored_predictions(folder, description)
        write_report(folder / REPORT, folder, predictions, images, weights="last", notes=notes)
    except UserError as error:
        return error.message
    except Exception as error:  # of matplotlib or of the user's data, which raise any type
        return " ".join(str(error).split()) or type(error).__name__
    return ""
