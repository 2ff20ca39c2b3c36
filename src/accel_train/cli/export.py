"""The command ``export``."""

import json as json_format
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accel_train.cli.evaluate import Run
from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.config.export_panel import ExportConfig
from accel_train.distributed.launcher import check_alone
from accel_train.loggers.text import printable, quantity, quoted
from accel_train.system.os_errors import format_bytes
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.export.check import Compared
    from accel_train.export.graph import Graph
    from accel_train.export.write import Exported

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on stdout.")]
_DIFFERS = 1
"""Exit code."""


@with_options(ExportConfig)
def export(config: ExportConfig, origins: dict[str, str], run: Run, json: Json = False) -> None:
    """Write the model of a run for other programs; exit code 1 if --check finds that it differs."""
    check_alone("export")
    if sys.stderr.isatty():  # its result alone goes to files and pipes
        print_first_line(f"exporting {run}", sys.stderr)
    with without_gc():
        from accel_train.export.write import export as export_run

    done = export_run(run, config)
    for note in done.notes:
        typer.echo(f"note: {printable(note)}", err=True)
    if json:
        typer.echo(json_format.dumps(_record(done)))
    else:
        for line in _lines(done):
            typer.echo(printable(line))
    if done.compared and not done.compared.agrees:
        raise typer.Exit(_DIFFERS)


def _record(done: "Exported") -> dict[str, Any]:
    return {
        "files": [str(file) for file in done.files],
        "weights": done.weights,
        **(done.graph.record() if done.graph else {}),
        **({"check": {**asdict(done.compared), "agrees": done.compared.agrees}} if done.compared else {}),
    }


def _lines(done: "Exported") -> Iterator[str]:
    model, *others = done.files
    size = format_bytes(sum(file.stat().st_size for file in done.files))
    yield f"{quoted(model)}: the {done.weights} weights, {size} with {', '.join(file.name for file in others)}"
    if done.graph:
        yield from _graph_lines(done.graph)
    if done.compared:
        yield from _check_lines(done.compared)
    if done.example:
        yield f"next: python {quoted(done.example)} PICTURE"
    else:
        yield "load it in Python with these lines:"
        yield from (f"    {line}" for line in done.loading_lines)


def _graph_lines(graph: "Graph") -> Iterator[str]:
    for name, tensor in graph.record().items():
        shape = " × ".join(map(str, tensor["shape"]))
        yield f"{name}: {tensor['name']}, {tensor['dtype']}, {shape}"


def _check_lines(compared: "Compared") -> Iterator[str]:
    others = "all classes are equal"
    if compared.other_classes:
        others = f"{quantity(compared.other_classes, 'image')} of another class"
    verdict = "" if compared.agrees else f", more than the {compared.tolerated:.1e} that are tolerated"
    yield (
        f"check: {quantity(compared.images, 'image')} in {compared.program}: "
        f"{compared.quantity} differ by at most {compared.difference:.1e}{verdict}; {others}"
    )
