"""Describes the end of a run: results, files and the next command."""

import re
import shlex

from rich.console import Console

from accel_train.events import ReportWritten, RunEnded, RunStarted
from accel_train.loggers.rows import Row, print_rows
from accel_train.loggers.text import accuracy, duration, quantity, speed, validation

_FUNCTION = re.compile(r"(?!hf:|timm:)[\w.]+:[^\W\d]\w*")
"""A user's my.module:function, no name that a library gives, which other commands import only if it is named."""


def print_summary(console: Console, ended: RunEnded, started: RunStarted) -> None:
    """Print :func:`summary_rows` and, unwrapped so that it can be copied, the run folder."""
    print_rows(console, summary_rows(ended, started))
    print_rows(console, [("files", started.run_folder)], wrap=False)


def print_report(console: Console, written: ReportWritten) -> None:
    """Print the report that a run has written, unwrapped."""
    print_rows(console, [("report", written.path)], wrap=False)


def print_next(console: Console, last: RunEnded | ReportWritten, started: RunStarted) -> None:
    """Print the next command, unwrapped; after all that is told of a finished run."""
    print_rows(console, [("next", next_command(last, started))], wrap=False)


def summary_rows(ended: RunEnded, started: RunStarted) -> list[Row]:
    """Return the results of a finished run."""
    of = validation(started.config["ema"])
    trained = ended.images_per_second > 0  # else all epochs were done before
    return [
        ("ended", ended.reason),
        ("accuracy", f"training {accuracy(ended.train_accuracy)}, {of} {accuracy(ended.val_accuracy)}"),
        ("best epoch", f"{ended.best_epoch}, {of} {accuracy(ended.best_val_accuracy)}"),
        *[("speed", f"{speed(ended.images_per_second)} images/s, {_data_wait(ended)}")] * trained,
        ("time", f"{_epochs_and_time(ended)}, {quantity(ended.updates, 'update')}"),
    ]


def next_command(last: RunEnded | ReportWritten, started: RunStarted) -> str:
    """Return the command that writes the report, or the one after that if it is written."""
    run = started.run_folder
    if isinstance(last, RunEnded):
        return shlex.join(["accel_train", "report", run, *_own_code(started, "model", "data")])
    return f"{shlex.join(['accel_train', 'predict', run, *_own_code(started, 'model')])} PICTURES"


def _own_code(started: RunStarted, *names: str) -> list[str]:
    """Return the options that a command needs to import the user's own code."""
    own = {f"--{name}": str(started.config[name]) for name in names}
    return [word for pair in own.items() if _FUNCTION.fullmatch(pair[1]) for word in pair]


def summary_line(ended: RunEnded, started: RunStarted) -> str:
    """Return the results of a finished run in one line."""
    best = f"best {accuracy(ended.best_val_accuracy)} in epoch {ended.best_epoch}"
    result = f"{validation(started.config['ema'])} accuracy {accuracy(ended.val_accuracy)}, {best}"
    return f"{result}, {_epochs_and_time(ended)} ({ended.reason}): {started.run_folder}"


def _epochs_and_time(ended: RunEnded) -> str:
    return f"{quantity(ended.epochs, 'epoch')} in {duration(ended.seconds)}"


def _data_wait(ended: RunEnded) -> str:
    return f"{100 * ended.data_wait_share:.1f} % of the time waiting for data"
