"""The command ``evaluate``."""

import json as json_format
import sys
from pathlib import Path
from typing import Annotated

import typer

from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.config.options import EvaluateConfig
from accel_train.distributed.environment import launched_rank
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.events import Evaluated, as_record
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import printable, quoted
from accel_train.system.process import without_gc

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on stdout.")]
PerClass = Annotated[bool, typer.Option("--per-class", help="Print the scores of each class, however many there are.")]

_FEW_CLASSES = 20
"""Most classes whose scores and confusion matrix a terminal shows unasked."""


@with_options(EvaluateConfig)
def evaluate(
    config: EvaluateConfig, origins: dict[str, str], run: Run, json: Json = False, per_class: PerClass = False
) -> None:
    """Evaluate the model of a run: loss, accuracy, scores of each class and calibration over all images."""
    count = processes_to_start(config.processes)
    if sys.stderr.isatty():  # its result alone goes to files and pipes
        print_first_line(f"evaluating {run}", sys.stderr)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))

    with without_gc():
        from accel_train.run.evaluate import evaluate as evaluate_run

    found = evaluate_run(run, config)
    if launched_rank() > 0:
        return
    for note in found.notes:
        typer.echo(f"note: {printable(note)}", err=True)
    if json:
        typer.echo(json_format.dumps(portable(as_record(found)), allow_nan=False))
    else:
        _print(found, config, per_class)


def _print(found: Evaluated, config: EvaluateConfig, per_class: bool) -> None:
    """Print the result; tables of the classes if they are few and somebody looks, or if they are asked for."""
    from accel_train.loggers.evaluation import class_table, confusion_table, result_line, result_rows
    from accel_train.loggers.rows import RunConsole, print_rows

    console = RunConsole(file=sys.stdout, highlight=False)
    typer.echo(printable(result_line(found)))
    print_rows(console, result_rows(found))
    few_on_terminal = console.is_terminal and found.classes <= _FEW_CLASSES
    if per_class or few_on_terminal:
        typer.echo("\n".join(["", *class_table(found)]))
    if few_on_terminal and (matrix := confusion_table(found, console.width)):
        typer.echo("\n".join(["", *matrix]))
    if config.predictions:
        print_rows(console, [("predictions", quoted(config.predictions))], wrap=False)
    if console.is_terminal:
        own = f" --model {quoted(config.model)}" if config.model else ""
        print_rows(console, [("next", f"accel_train report {quoted(found.run_folder)}{own}")], wrap=False)
