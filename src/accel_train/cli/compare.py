"""The command ``compare``."""

import json as json_format
import math
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from accel_train.config.fields import expand_home
from accel_train.distributed.launcher import check_alone
from accel_train.errors import UserError
from accel_train.history.run import read_run
from accel_train.history.summary import summarize
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import (
    printable,
    quantity,
    quoted,
)
from accel_train.system.atomic_files import refuse_unwritable
from accel_train.system.folder_lock import is_locked

_LETTERS = string.ascii_uppercase
"""Names of runs, in the order given."""

Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of two or more runs.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also plot losses and accuracies.")]
Price = Annotated[
    list[float] | None,
    typer.Option(
        "--price-per-hour", metavar="<float>", help="Price of all the hardware of a run: one for all, or one per run."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print everything as one JSON line.")]


def compare(runs: Runs, png: Png = None, price_per_hour: Price = None, json: Json = False) -> None:
    """Compare runs: results, options that differ, curves, a paired test of their accuracy, and where they part."""
    check_alone("compare")
    from accel_train.cli.compare_lines import comparison_lines, next_command  # import numpy
    from accel_train.history.compared import compare_runs

    folders = [expand_home(folder) for folder in runs]
    prices = _prices(price_per_hour or [], len(folders))
    if png:
        refuse_unwritable(png := expand_home(png), "--png", ".png")
    _refuse_twice(folders)
    histories = dict(zip(_LETTERS, map(read_run, folders), strict=False))
    summaries = [summarize(run, running=is_locked(run.folder)) for run in histories.values()]
    compared = compare_runs(histories, summaries, prices)
    if json:
        typer.echo(json_format.dumps(portable(compared.as_record()), allow_nan=False))
    else:
        for line in comparison_lines(compared):
            typer.echo(line)
    if png:
        from accel_train.history.plot import plot_runs

        plot_runs(png, {f"{letter}  {run.folder}": run for letter, run in compared.runs.items()})
        if not json:
            typer.echo(printable(f"{quoted(png)}: losses and accuracies"))
    if not json:
        typer.echo(printable(f"next: {next_command(compared)}"))


def _refuse_twice(folders: Sequence[Path]) -> None:
    places = [folder.resolve() for folder in folders]
    if twice := next((folder for folder in folders if places.count(folder.resolve()) > 1), None):
        raise UserError(f"{twice} is given twice", "give each run once")


def _prices(given: Sequence[float], runs: int) -> list[float] | None:
    if not 2 <= runs <= len(_LETTERS):
        raise UserError(f"{quantity(runs, 'run')} given", f"give 2 to {len(_LETTERS)} folders of runs, such as runs/*")
    if not given:
        return None
    if len(given) not in (1, runs):
        raise UserError(
            f"{quantity(len(given), 'price')} for {runs} runs", "give --price-per-hour once, or once per run"
        )
    if wrong := next((price for price in given if not 0 <= price < math.inf), None):
        raise UserError(f"--price-per-hour {wrong:g} is no price", "give a number from 0")
    return list(given) * (runs // len(given))
