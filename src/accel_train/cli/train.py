"""The command ``train``."""

import sys
from typing import Annotated

import typer

from accel_train.cli.options import ConfigFile, with_options
from accel_train.config.options import TrainConfig
from accel_train.data.sources import fashion_mnist_files
from accel_train.distributed.environment import launched_rank
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.events import RunEnded, RunStarted, Stopped
from accel_train.system.process import without_gc
from accel_train.system.signals import StopSignals

PrintConfig = Annotated[bool, typer.Option("--print-config", hidden=True, help="Print the resolved config and exit.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would run and exit.")]
Quiet = Annotated[bool, typer.Option("--quiet", hidden=True, help="Print only the final result.")]
Json = Annotated[bool, typer.Option("--json", help="Print events as JSON lines on stdout, everything else on stderr.")]


@with_options(TrainConfig, help_all=True)
def train(
    config: TrainConfig,
    origins: dict[str, str],
    signals: StopSignals,
    config_file: ConfigFile = None,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train an image classifier; write its weights, metrics and config to a run folder."""
    count = processes_to_start(config.processes)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))
    if config.data == "fashion-mnist":
        fashion_mnist_files.read_ahead(config.data_dir)
    if print_config or dry_run:
        _preview(config, origins, print_config)
        return

    with without_gc():
        from accel_train.loggers.select import logged
        from accel_train.run.session import train as train_events

    code = 0
    for event in logged(train_events(config, origins, signals), rank=launched_rank(), quiet=quiet, json=json):
        if isinstance(event, RunStarted):
            signals.training_began(alone=event.hardware.world_size == 1)
        elif isinstance(event, RunEnded | Stopped):
            signals.training_ended()  # all is saved
            code = event.exit_code if isinstance(event, Stopped) else 0
    raise typer.Exit(code)


def _preview(config: TrainConfig, origins: dict[str, str], print_config: bool) -> None:
    """Print the resolved config or the banner of a run, and write nothing."""
    from accel_train.distributed.accelerator import stop
    from accel_train.loggers.banner import print_banner
    from accel_train.loggers.rows import RunConsole
    from accel_train.loggers.text import printable
    from accel_train.run.build import build_run
    from accel_train.run.describe import config_text, run_started

    try:
        run = build_run(config, origins)
        if run.processes.is_main:
            if print_config:
                sys.stdout.write(config_text(run))
            else:
                print_banner(RunConsole(highlight=False), run_started(run))
                for notice in run.notices:
                    typer.echo(f"note: {printable(notice)}")
    finally:
        stop()
