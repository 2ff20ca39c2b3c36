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
from accel_train.events import as_record
from accel_train.loggers.text import printable, quantity
from accel_train.system.process import without_gc

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on stdout.")]

_MANY_CLASSES = 10
"""With more of them, top-5 accuracy is of interest too."""


@with_options(EvaluateConfig)
def evaluate(config: EvaluateConfig, origins: dict[str, str], run: Run, json: Json = False) -> None:
    """Evaluate the model of a run: loss and accuracy over all images."""
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
        typer.echo(json_format.dumps(as_record(found)))
    else:
        split = " (test)" * (found.split == "test")
        place = printable(f"{found.run_folder} ({found.weights}) on {found.data}{split}")
        top5 = f", top-5 accuracy {found.top5:.4f}" * (found.classes > _MANY_CLASSES)
        balanced = f", balanced accuracy {found.balanced_accuracy:.4f}"
        balanced *= f"{found.balanced_accuracy:.4f}" != f"{found.accuracy:.4f}"
        result = f"loss {found.loss:.4f}, accuracy {found.accuracy:.4f}{balanced}{top5}"
        typer.echo(f"{place}: {quantity(found.images, 'image')}, {result}")
