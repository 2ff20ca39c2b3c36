"""The command ``report``."""

import sys

import typer

from accel_train.cli.evaluate import Run
from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.config.options import ReportConfig
from accel_train.distributed.launcher import check_alone
from accel_train.loggers.text import printable, quoted
from accel_train.system.process import without_gc


@with_options(ReportConfig)
def report(config: ReportConfig, origins: dict[str, str], run: Run) -> None:
    """Write a page about a run: what it reached, where it errs, how it was trained; one HTML file."""
    check_alone("report")
    if sys.stderr.isatty():
        print_first_line(f"reporting on {run}", sys.stderr)
    with without_gc():
        from accel_train.loggers.rows import RunConsole, print_rows
        from accel_train.run.stored_report import StoredReport

    written = StoredReport(run, config)
    written.write()
    for note in written.notes:
        typer.echo(f"note: {printable(note)}", err=True)
    console = RunConsole(file=sys.stdout, highlight=False)
    print_rows(console, [("report", quoted(written.path))], wrap=False)
    if console.is_terminal:
        own = f" --model {quoted(config.model)}" if config.model else ""
        print_rows(console, [("next", f"accel_train predict {quoted(run)}{own} PICTURES")], wrap=False)
