"""The command ``train``."""

import shlex
import sys
from collections.abc import Iterator
from typing import Annotated, TextIO

import typer

from accel_train.cli.first_line import print_first_line, training
from accel_train.cli.options import with_options
from accel_train.config.options import TrainConfig
from accel_train.data.sources import fashion_mnist_files
from accel_train.distributed.environment import by_other_launcher, launched_rank
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.errors import UserError
from accel_train.events import Event, RunEnded, RunStarted, Stopped
from accel_train.system.process import without_gc
from accel_train.system.signals import StopSignals

PrintConfig = Annotated[bool, typer.Option("--print-config", hidden=True, help="Print the resolved config and exit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print all that a run would, up to its start, and exit.")]
Verbose = Annotated[bool, typer.Option("--verbose", hidden=True, help="Describe the run in full at its start.")]
Quiet = Annotated[bool, typer.Option("--quiet", hidden=True, help="Print only the final result.")]
Json = Annotated[bool, typer.Option("--json", help="Print events as JSON lines on stdout, everything else on stderr.")]


@with_options(TrainConfig, many=True)
def train(
    config: TrainConfig,
    origins: dict[str, str],
    signals: StopSignals,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train an image classifier; write its weights, metrics and config to a run folder."""
    if verbose and quiet:
        raise UserError("--verbose and --quiet contradict each other", "leave one of them out")
    count = processes_to_start(config.processes)
    if not (quiet or print_config):
        print_first_line(training(config, count), sys.stderr if json else sys.stdout)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))
    if config.data == "fashion-mnist":
        fashion_mnist_files.read_ahead(config.data_dir)
    if print_config or dry_run:
        _preview(config, origins, print_config, sys.stderr if json else sys.stdout)
        return

    with without_gc():
        from accel_train.loggers.select import logged
        from accel_train.run.session import train as train_events
        from accel_train.trackers.select import TRACKERS_ROW

    command = None if by_other_launcher() else shlex.join(["accel_train", *sys.argv[1:]])
    events = logged(
        train_events(config, origins, signals),
        rank=launched_rank(),
        verbose=verbose,
        quiet=quiet,
        json=json,
        command=command,
        more=[TRACKERS_ROW],
    )
    raise typer.Exit(_carry_out(events, signals))


def _carry_out(events: Iterator[Event], signals: StopSignals) -> int:
    """Let a run go through its events, and return the exit code."""
    code = 0
    for event in events:
        if isinstance(event, RunStarted):
            signals.training_began(alone=event.hardware.world_size == 1)
        elif isinstance(event, RunEnded | Stopped):
            signals.training_ended(complete=isinstance(event, RunEnded))  # all is saved
            code = event.exit_code if isinstance(event, Stopped) else 0
    return code


def _preview(config: TrainConfig, origins: dict[str, str], print_config: bool, stream: TextIO) -> None:
    """Print the resolved config, or on a stream all that a run would print before it trains, and write nothing."""
    from accel_train.distributed.accelerator import stop
    from accel_train.loggers.banner import print_banner
    from accel_train.loggers.rows import RunConsole
    from accel_train.loggers.text import printable
    from accel_train.run.build import build_run
    from accel_train.run.describe import config_text, run_started
    from accel_train.run.dry_run import dry_run

    try:
        run = build_run(config, origins)
        if print_config:
            if run.processes.is_main:
                sys.stdout.write(config_text(run))
            return
        start, notices = dry_run(run)
        if run.processes.is_main:
            print_banner(RunConsole(file=stream, highlight=False), run_started(run), verbose=True)
            for line in (start, *(f"note: {notice}" for notice in notices)):
                typer.echo(printable(line), stream)
    finally:
        stop()
