"""The command ``predict``."""

import json as json_format
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accel_train.cli.evaluate import Run
from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.cli.progress import ShowProgress, progress, say
from accel_train.config.options import PredictConfig
from accel_train.distributed.environment import launched_rank
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.errors import UserError
from accel_train.loggers.text import printable, quantity, quoted
from accel_train.system.atomic_files import STDOUT, write_output
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.metrics.predicted_classes import PredictedClasses
    from accel_train.run.predict import Predicted

Paths = Annotated[
    list[str],
    typer.Argument(
        metavar="PATH",
        help="Pictures, folders, zips or quoted patterns; - reads a list of paths from stdin.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON line a picture on stdout.")]

_FOUND_UNREADABLE = 1
"""Exit code."""
_ROWS_ON_A_TERMINAL = 40
_CLASSES_IN_A_LINE = 10
_NONE = "–"
"""Stands for the class of a picture none of whose classes is probable enough."""


@with_options(PredictConfig)
def predict(config: PredictConfig, origins: dict[str, str], run: Run, path: Paths, json: Json = False) -> None:
    """Predict the classes of pictures, and list those that cannot be read; exit code 1 if any."""
    if json and config.csv == STDOUT:
        raise UserError(
            "--csv - and --json both write to standard output", "leave one out, or give the name of a CSV file"
        )
    count = processes_to_start(config.processes)
    if sys.stderr.isatty():  # its result alone goes to files and pipes
        print_first_line(f"predicting with {run}", sys.stderr)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))

    with without_gc():
        from accel_train.run.predict import predict as predict_with

    with ExitStack() as opened:
        bar: list[ShowProgress] = []

        def show(done: int, pictures: int) -> None:
            if not bar:  # only now the number of pictures is known
                bar.append(opened.enter_context(progress(pictures, sys.stderr)))
            bar[0](done)

        main = launched_rank() == 0
        found = predict_with(run, path, config, read_list=_stdin, show=show if main else lambda done, pictures: None)
    if not main:  # else a launcher would end rank 0 because this process has found what it reports
        return
    _report(found, run, config, json)
    if found.table.problems:
        raise typer.Exit(_FOUND_UNREADABLE)


def _stdin() -> bytes:
    with open(0, "rb", closefd=False) as file:
        return file.read()


def _report(found: "Predicted", run: Path, config: PredictConfig, json: bool) -> None:
    """Write or print the table; all else goes to stderr."""
    table = found.table
    for note in found.notes:
        _say(f"note: {note}")
    if config.csv == STDOUT:
        typer.echo(table.csv_bytes(), nl=False)
    elif config.csv:
        write_output(config.csv, table.csv_bytes(), "--csv")
    if json:
        for record in table.records():
            typer.echo(json_format.dumps(record))
    elif not config.csv:
        for line in _lines(table, _ROWS_ON_A_TERMINAL if sys.stdout.isatty() else None):
            typer.echo(line)
    for line in _problem_lines(table, _ROWS_ON_A_TERMINAL if sys.stderr.isatty() else None):
        _say(line)
    to_file = f", written to {quoted(config.csv)}" if config.csv not in (None, STDOUT) else ""
    _say(f"{run} ({found.weights}): {_summary(table)}{to_file}")
    from accel_train.loggers.rows import RunConsole, print_rows  # imports Rich: not for --help

    console = RunConsole(file=sys.stderr, highlight=False)
    if console.is_terminal:
        own = f" --model {quoted(config.model)}" if config.model else ""
        with suppress(OSError):  # it has gone
            print_rows(console, [("next", f"accel_train export {quoted(run)}{own} --format onnx")], wrap=False)


def _say(line: str) -> None:
    say(printable(line), sys.stderr)


def _lines(table: "PredictedClasses", most: int | None) -> Iterator[str]:
    """Yield the table, `most` of its rows."""
    from accel_train.cli.table import Column, table_lines  # imports Rich: not for --help

    rows = [row for row in range(len(table)) if row not in table.problems]
    shown = [(table.images[row], [*table.of(row), (_NONE, "")]) for row in rows[:most]]
    columns = [
        Column("class", [found[0][0] for _, found in shown], left=True),
        Column("probability", [_short(found[0][1]) for _, found in shown]),
        Column(
            "next best", [", ".join(f"{name} {_short(p)}" for name, p in found[1:-1]) for _, found in shown], left=True
        ),
        Column("picture", [name for name, _ in shown], left=True),
    ]
    if shown:
        yield from table_lines(columns, sys.maxsize)  # the last column may be wrapped
    if len(shown) < len(rows):
        yield f"… and {len(rows) - len(shown):,} more: --csv FILE writes all of them"


def _problem_lines(table: "PredictedClasses", most: int | None) -> Iterator[str]:
    """Yield the pictures that cannot be read, `most` of them, with the reasons."""
    for row, reason in list(table.problems.items())[:most]:
        yield f"{table.images[row]}: {reason}"
    if most is not None and most < len(table.problems):
        yield f"… and {len(table.problems) - most:,} more that cannot be read: --csv FILE writes all of them"


def _short(probability: str) -> str:
    return probability and f"{float(probability):.4f}"


def _summary(table: "PredictedClasses") -> str:
    """Return the number of pictures, and of those of the most frequent classes."""
    firsts = [table.of(row)[:1] for row in range(len(table)) if row not in table.problems]
    counts = Counter(found[0][0] for found in firsts if found).most_common()
    parts = [f"{count:,} × {name}" for name, count in counts[:_CLASSES_IN_A_LINE]]
    others = sum(count for _, count in counts[_CLASSES_IN_A_LINE:])
    unsure = sum(not found for found in firsts)
    parts += [f"{others:,} × {quantity(len(counts) - _CLASSES_IN_A_LINE, 'other class', 'other classes')}"] * bool(
        others
    )
    parts += [f"{unsure:,} below {table.threshold:g}"] * bool(unsure)
    parts += [f"{len(table.problems):,} cannot be read"] * bool(table.problems)
    return ", ".join([quantity(len(table), "picture"), *parts])
