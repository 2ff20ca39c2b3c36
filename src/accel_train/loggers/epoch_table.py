"""Formats epochs as rows of a table with as many columns as fit into a width."""

from collections.abc import Callable
from typing import NamedTuple

from accel_train.events import EpochEnd, RunStarted
from accel_train.loggers.lines import shows_balanced
from accel_train.loggers.text import accuracy, duration, images, learning_rate, loss, rough_duration, speed

_GAP = "  "


def _time(seconds: float) -> str:
    return duration(seconds) if round(seconds, 1) < 60 else rough_duration(seconds)


class Column(NamedTuple):
    """A right-aligned column."""

    name: str
    width: int
    importance: int
    """In a narrow window, the least important columns are dropped first."""
    text: Callable[[RunStarted, EpochEnd], str]


_COLUMNS = (
    Column("epoch", 7, 9, lambda started, end: f"{end.epoch}/{started.plan.epochs}"),
    Column("train loss", 10, 5, lambda started, end: loss(end.train_loss)),
    Column("val loss", 8, 6, lambda started, end: loss(end.val_loss)),
    Column("val accuracy", 12, 8, lambda started, end: accuracy(end.val_accuracy)),
    Column("balanced", 8, 7, lambda started, end: accuracy(end.val_balanced_accuracy)),
    Column("ema", 6, 7, lambda started, end: "" if end.ema_val_accuracy is None else accuracy(end.ema_val_accuracy)),
    Column("", 1, 7, lambda started, end: "★" if end.best else ""),
    Column("noise scale", 11, 1, lambda started, end: images(end.noise_scale)),
    Column("lr", 9, 2, lambda started, end: learning_rate(end.lr)),
    Column("images/s", 9, 3, lambda started, end: speed(end.images_per_second)),
    Column("time", 10, 4, lambda started, end: _time(end.seconds)),
)


def fitting_columns(started: RunStarted, width: int) -> list[Column]:
    """Return the most important columns that fit into a width, in their usual order, at least one.

    There is one for the accuracy of the averaged weights, for balanced accuracy and for the noise scale only if the run
    has it.
    """
    plan = started.plan
    optional = {
        "ema": plan.ema_half_life is not None,
        "balanced": shows_balanced(started),
        "noise scale": plan.global_batch > plan.batch_size,
    }
    columns = [column for column in _COLUMNS if optional.get(column.name, True)]
    while len(columns) > 1 and len(header(columns)) > width:
        columns.remove(min(columns, key=lambda column: column.importance))
    return columns


def header(columns: list[Column]) -> str:
    """Return the line of column names."""
    return _GAP.join(column.name.rjust(column.width) for column in columns)


def row(columns: list[Column], started: RunStarted, end: EpochEnd) -> str:
    """Return the line of an epoch."""
    return _GAP.join(column.text(started, end).rjust(column.width) for column in columns)
