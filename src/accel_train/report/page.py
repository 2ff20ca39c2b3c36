"""Makes the page of a run from its history, its predictions and some pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from accel_train.history.config_file import Setting
from accel_train.history.run import RunHistory
from accel_train.loggers.text import printable, quantity
from accel_train.metrics.calibration import reliability
from accel_train.metrics.classification import confusion_matrix
from accel_train.metrics.predictions import Predictions
from accel_train.report.classes import FEW_CLASSES, describe_classes, pooled_shares
from accel_train.report.curves import charts
from accel_train.report.headline import percent, status, tiles
from accel_train.report.pictures import Mistake, Sample
from accel_train.report.plots import confidence_histogram, matrix_image, reliability_diagram
from accel_train.report.resources import profiled, rank_rows, time_of_run
from accel_train.report.settings import commands, details, next_commands, options
from accel_train.report.started import read_started

_MOST_CELLS = 200
"""Rows and columns of the picture of a matrix; those of more classes are pooled."""
_MOST_CLASSES = 5_000
"""Of more no confusions are shown: the matrix of 20,000 takes 3 GiB."""
_HARMLESS = "\u00a0\u200c\u200d"
"""Characters that do not print alone: the space that does not break, and joiners in words of Persian and in emoji."""


@dataclass(frozen=True)
class Content:
    """What a page is made of; what is not known is None or empty, and left out."""

    history: RunHistory
    settings: Mapping[str, Setting]
    predictions: Predictions | None
    weights: str
    """Whose predictions they are: last or best."""
    mistakes: Sequence[Mistake] = ()
    samples: Sequence[Sample] = ()
    notes: Sequence[str] = ()
    """What the reader should know, one sentence each."""


def page(content: Content) -> str:
    """Return the page as HTML: one file without scripts, which loads nothing."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def safe(value: Any) -> Any:
        return shown_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=safe,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"svg": Markup, "quantity": quantity}
    environment.globals |= {"percent": percent, "version": version("accel_train")}
    style = Markup((folder / "page.css").read_text(encoding="utf-8"))
    return environment.get_template("page.html").render(style=style, **_sections(content))


def shown_text(text: str) -> str:
    """Return a text as a page shows it: characters that would act on its neighbours, and lone bytes, are escaped."""
    return "".join(glyph if glyph in _HARMLESS else printable(glyph) for glyph in text)


def _sections(content: Content) -> dict[str, Any]:
    """Return the variables of the template."""
    history, predictions, notes = content.history, content.predictions, [*content.notes, *content.history.problems]
    try:
        started = read_started(history.started) if history.started else None
    except ValueError as error:
        started = None
        notes.append(f"the record of the start of the run {error}")
    calibration = reliability(predictions.confidences_N, predictions.correct_N) if predictions else None
    per_epoch = max(1, started.plan.updates_per_epoch) if started else 1
    per_update = started.plan.global_batch if started else 0
    return {
        "history": history,
        "started": started,
        "name": history.folder.absolute().name,
        "status": status(history, started),
        "tiles": tiles(history, started, predictions, calibration),
        "notes": notes,
        "charts": charts(history.metrics, per_epoch),
        "predictions": predictions,
        "weights": content.weights,
        **_errors(predictions),
        "mistakes": content.mistakes,
        "samples": content.samples,
        "calibration": calibration,
        "reliability": reliability_diagram(calibration) if calibration else "",
        "confidence": confidence_histogram(calibration) if calibration else "",
        "time": time_of_run(history.epochs, history.end, per_epoch * per_update),
        "profile": profiled(history.metrics),
        "ranks": rank_rows(history.metrics, started),
        "options": options(content.settings),
        "commands": commands(history, started),
        "next": next_commands(history),
        "details": details(started) if started else [],
    }


def _errors(predictions: Predictions | None) -> dict[str, Any]:
    """Return the variables of the classes and their confusions."""
    if predictions is None or len(predictions.classes) > _MOST_CLASSES:
        return {"classes": None, "matrix_image": ""}
    classes = len(predictions.classes)
    confusion_KK = confusion_matrix(predictions.labels_N, predictions.predicted_N, classes)
    image = "" if classes <= FEW_CLASSES else matrix_image(pooled_shares(confusion_KK, _MOST_CELLS), classes)
    return {"classes": describe_classes(predictions.classes, confusion_KK), "matrix_image": image}
