"""The command ``bench``."""

import itertools
import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from pydantic import Field, PositiveInt

from accel_train.bench.results import Row, Setting
from accel_train.cli.options import with_options
from accel_train.config.fields import AugmentLevel, Config, Device, Name, Precision, expand_home
from accel_train.distributed.launcher import check_alone, runnable
from accel_train.errors import UserError
from accel_train.loggers.text import quantity, write_to_stderr
from accel_train.system.atomic_files import refuse_unwritable
from accel_train.system.signals import StopSignals

_IMAGES = 8_192
_MIN_UPDATES = 40

Json = Annotated[bool, typer.Option("--json", help="Print each row as a JSON line as soon as it is measured.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Also plot the rows.")]


class BenchConfig(Config):
    """The settings to measure: every batch size on every device in every precision."""

    batch_sizes: str = "4,64,256"
    """Images per process per update, comma-separated."""
    devices: str | None = None
    """Devices, such as cpu,cuda. Default: cpu, and the accelerator if there is one."""
    precisions: str = "fp32"
    """Precisions, such as fp32,bf16."""
    compile: bool = False
    """Also measure the compiled model."""
    model: Name = "cnn"
    """Model, as for train."""
    data: Name | None = None
    """Data, as for train. Default: synthetic images of 1 × 28 × 28, the size of FashionMNIST's."""
    augment: AugmentLevel = "none"
    """Augmentation, as for train."""
    updates: int | None = Field(None, ge=30)
    """Updates per run. Default: enough for 8,192 images, at least 40."""
    processes: PositiveInt = 1
    """Processes per run, on this machine."""
    against: Literal["bare"] | None = None
    """bare: alternate with a bare loop on one batch in memory, and show the ratio."""
    rounds: PositiveInt = 1
    """Runs per setting; medians are shown."""


@with_options(BenchConfig)
def bench(
    config: BenchConfig, origins: dict[str, str], signals: StopSignals, json: Json = False, png: Png = None
) -> None:
    """Measure images/s, memory, start-up and time per phase by batch size, device and precision."""
    check_alone("bench")
    runnable(config.processes)
    settings = _settings(config)
    if png:
        refuse_unwritable(png := expand_home(png), "--png", ".png")
    data = config.data or f"synthetic:{max(setting.images for setting in settings)},1,28,28,10"
    title = f"{config.model} on {data}, {quantity(config.processes, 'process', 'processes')}"
    measured = _measure(config, data, settings, signals)
    try:
        rows = _print_records(measured) if json else _show_table(title, measured)
    except OSError:
        if signals.reason is None:  # else it is the terminal, which is gone
            raise
    if signals.reason:
        write_to_stderr(f"ended by {signals.reason.name}\n")
        raise typer.Exit(signals.reason.exit_code)
    if png:
        from accel_train.bench.plot import plot

        plot(png, title, rows)


def _settings(config: BenchConfig) -> list[Setting]:
    sizes = _batch_sizes(config.batch_sizes)
    precisions = _names("--precisions", config.precisions, get_args(Precision))
    compiled = (False, True) if config.compile else (False,)
    return [
        Setting(
            device=device,
            batch_size=size,
            precision=precision,
            compile=compile,
            processes=config.processes,
            updates=config.updates or max(_MIN_UPDATES, _IMAGES // (size * config.processes)),
        )
        for device, precision, compile, size in itertools.product(_devices(config.devices), precisions, compiled, sizes)
    ]


def _measure(config: BenchConfig, data: str, settings: list[Setting], signals: StopSignals) -> Iterator[Row]:
    from accel_train.bench.measure import Workload, measure

    workload, against_bare = Workload(data, config.model, config.augment), config.against is not None
    signals.training_began(alone=True)  # to end the run, and to remove its folder
    for setting in settings:
        try:
            row = measure(workload, setting, against_bare=against_bare, rounds=config.rounds, signals=signals)
        except UserError:
            if signals.reason is None:
                raise
        if signals.reason:
            return
        yield row


def _print_records(measured: Iterator[Row]) -> list[Row]:
    rows = []
    for row in measured:
        rows.append(row)
        sys.stdout.write(json_format.dumps(row.as_record()) + "\n")
        sys.stdout.flush()
    return rows


def _show_table(title: str, measured: Iterator[Row]) -> list[Row]:
    from rich.console import Console
    from rich.live import Live

    from accel_train.bench.table import benchmark_table

    rows: list[Row] = []
    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for row in measured:
            rows.append(row)
            live.update(benchmark_table(title, rows), refresh=True)
    return rows


def _devices(given: str | None) -> list[str]:
    if given is not None:
        return _names("--devices", given, get_args(Device)[1:])  # all but auto
    from accel_train.distributed.resolve import choose_device

    return list(dict.fromkeys(("cpu", choose_device("auto", {}))))


def _batch_sizes(given: str) -> list[int]:
    sizes = [int(word) if word.strip().isdecimal() else 0 for word in given.split(",")]
    if not all(sizes):
        raise UserError(f"--batch-sizes {given}: not all are whole numbers above 0", "write --batch-sizes 2,64,256")
    return list(dict.fromkeys(sizes))


def _names(option: str, given: str, possible: tuple[str, ...]) -> list[str]:
    names = list(dict.fromkeys(word.strip() for word in given.split(",")))
    for name in names:
        if name not in possible:
            raise UserError(f"{option} {given}: {name!r} is unknown", f"choose among {', '.join(possible)}")
    return names
