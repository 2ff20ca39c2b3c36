"""The command ``train``."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from accel_train.cli.options import ConfigFile, with_options
from accel_train.config.options import TrainConfig
from accel_train.data.sources import fashion_mnist as idx
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.events import Stopped
from accel_train.system.process import no_garbage
from accel_train.system.signals import Interruption

if TYPE_CHECKING:
    from accel_train.run.build import Run

PrintConfig = Annotated[bool, typer.Option("--print-config", help="Show the config with all choices made, and stop.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would run, and stop.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say only how it ended.")]
Json = Annotated[bool, typer.Option("--json", help="Facts as JSON lines on stdout, all else on stderr.")]


@with_options(TrainConfig)
def train(
    config: TrainConfig,
    origins: dict[str, str],
    interruption: Interruption,
    config_file: ConfigFile = None,
    print_config: PrintConfig = False,
    dry_run: DryRun = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train an image classifier and leave its weights, metrics and config in a run folder."""
    count = processes_to_start(config.processes)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))
    if config.data == "fashion-mnist":
        idx.read_ahead(config.data_dir)

    with no_garbage():
        from accel_train.distributed import accelerator as distributed
        from accel_train.loggers.select import open_sinks
        from accel_train.run.build import build_run
        from accel_train.run.session import Session

    code = 0
    try:
        run = build_run(config, origins)
        if print_config or dry_run:
            _preview(run, print_config)
            return
        session = Session(run, interruption)
        accelerator = run.accelerator
        with open_sinks(
            run.place.folder,
            rank=accelerator.process_index,
            world_size=accelerator.num_processes,
            device=distributed.device_name(accelerator),
            quiet=quiet,
            json=json,
            resumed=session.resumed,
        ) as sinks:
            interruption.training_began()
            for event in session.events():
                for sink in sinks:
                    sink(event)
                if isinstance(event, Stopped):
                    code = event.exit_code
            interruption.training_ended()
    finally:
        distributed.stop()
    raise typer.Exit(code)


def _preview(run: "Run", print_config: bool) -> None:
    from rich.console import Console

    from accel_train.loggers.banner import print_banner
    from accel_train.run.describe import config_text, facts

    if run.accelerator.is_main_process:
        if print_config:
            sys.stdout.write(config_text(run))
        else:
            print_banner(Console(highlight=False), facts(run))
