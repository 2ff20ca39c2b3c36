"""The command ``runs``."""

import json as json_format
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from accel_train.cli.table import Column, table_lines, terminal_width
from accel_train.config.fields import expand_home
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.history.run import is_run, read_run
from accel_train.history.summary import Summary, summaries, summarize
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import accuracy, loss, printable, quantity, quoted, rough_duration, speed
from accel_train.system.folder_lock import is_locked

_SORTED_BY: dict[str, tuple[Callable[[Summary], Any], bool]] = {
    "began": (lambda run: run.began, True),
    "name": (lambda run: run.run_folder, False),
    "accuracy": (lambda run: run.best_val_accuracy, True),
    "loss": (lambda run: run.val_loss, False),
    "speed": (lambda run: run.images_per_second, True),
    "time": (lambda run: run.seconds, True),
    "epochs": (lambda run: run.epochs, True),
    "parameters": (lambda run: run.parameters, False),
}
"""By the value of --sort: what is compared, and whether the largest comes first."""

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of run folders, or one of these.")]
Sort = Annotated[
    str,
    typer.Option("--sort", metavar=f"<{'|'.join(_SORTED_BY)}>", help="Order of the runs: the latest or best first."),
]
Json = Annotated[bool, typer.Option("--json", help="Print each run as a JSON line, numbers unrounded.")]


def runs(folder: Folder = Path("runs"), sort: Sort = "began", json: Json = False) -> None:
    """List the runs in a folder: state, best validation accuracy, speed and time of each."""
    check_alone("runs")
    if sort not in _SORTED_BY:
        raise UserError(f"--sort {sort} is unknown", f"choose among {', '.join(_SORTED_BY)}")
    found = _ordered(_found(expand_home(folder)), sort)
    if json:
        for run in found:
            typer.echo(json_format.dumps(portable(asdict(run)), allow_nan=False))
        return
    for line in (*table_lines(_columns(found), terminal_width()), *map(printable, _problem_lines(found))):
        typer.echo(line)
    if len(trained := [quoted(run.run_folder) for run in found if run.epochs]) > 1:
        typer.echo(printable(f"next: accel_train compare {trained[0]} {trained[1]}"))


def _found(folder: Path) -> list[Summary]:
    if is_run(folder):
        return [summarize(read_run(folder), running=is_locked(folder))]
    try:
        running = frozenset(path for path in folder.iterdir() if is_locked(path))
        found = list(summaries(folder, running))
    except OSError as error:
        what = "there are no runs yet" if str(folder) == "runs" and not folder.exists() else error.strerror
        raise UserError(f"{folder}: {what}", "give the folder that holds your run folders") from None
    if not found:
        raise UserError(f"{folder} holds no runs", "give the folder that holds your run folders")
    return found


def _ordered(found: list[Summary], sort: str) -> list[Summary]:
    """Sort runs; those without the value come last."""
    value, largest_first = _SORTED_BY[sort]
    known = [run for run in found if value(run) is not None and value(run) == value(run)]  # NaN equals nothing
    return sorted(known, key=value, reverse=largest_first) + [run for run in found if run not in known]


def _columns(found: Sequence[Summary]) -> list[Column]:
    def column(name: str, importance: int, text: Callable[[Summary], str], *, left: bool = False) -> Column:
        return Column(name, [text(run) for run in found], importance, left)

    return [
        column("run", 10, lambda run: run.run_folder, left=True),
        column("state", 8, lambda run: run.state, left=True),
        column("best accuracy", 9, lambda run: accuracy(run.best_val_accuracy)),
        column("epochs", 7, lambda run: f"{run.epochs}/{run.planned_epochs or '?'}"),
        column("val loss", 4, lambda run: loss(run.val_loss)),
        column("data", 3, lambda run: run.data or "", left=True),
        column("model", 5, lambda run: run.model or "", left=True),
        column("images/s", 2, lambda run: speed(run.images_per_second or 0)),
        column("time", 6, lambda run: rough_duration(run.seconds) if run.seconds else "-"),
        column("began", 1, lambda run: _local_time(run.began), left=True),
    ]


def _local_time(began: str | None) -> str:
    try:
        return f"{datetime.fromisoformat(began).astimezone():%Y-%m-%d %H:%M}" if began else ""
    except ValueError:
        return ""


def _problem_lines(found: Sequence[Summary]) -> list[str]:
    damaged = [run for run in found if run.state == "damaged"]
    lines = [f"{quoted(run.run_folder)}: {'; '.join(run.problems)}" for run in damaged]
    resumable = [run for run in found if run.state == "unfinished"]
    if resumable:
        count = quantity(len(resumable), "run is unfinished", "runs are unfinished")
        lines.append(f"{count}; to continue: accel_train train --resume {quoted(resumable[0].run_folder)}")
    return lines
