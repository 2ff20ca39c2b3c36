"""The command ``bench``."""

import itertools
import json as json_format
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, get_args

import typer
from pydantic import Field

from accel_train.bench.results import Row, Setting
from accel_train.cli.options import with_options
from accel_train.config.options import Augmentation, Config, Device, Precision
from accel_train.errors import UserError

_IMAGES = 8_192
_FEWEST_UPDATES = 40

Json = Annotated[bool, typer.Option("--json", help="A JSON line for each row, as soon as it is there.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="FILE", help="Draw it too; needs matplotlib.")]


class BenchConfig(Config):
    """What is measured: every batch size on every device in every precision."""

    batch_sizes: str = Field("4,64,256", description="Images per process and update.")
    devices: str | None = Field(None, description="As cpu,cuda. Unset: cpu, and the accelerator if there is one.")
    precisions: str = Field("fp32", description="As fp32,bf16.")
    compile: bool = Field(False, description="Measure the compiled model as well.")
    model: str = Field("cnn", description="As for train.")
    data: str | None = Field(
        None, description="As for train. Unset: synthetic images of 1 × 28 × 28, like FashionMNIST's."
    )
    augment: Augmentation = Field("none", description="As for train.")
    updates: int | None = Field(
        None,
        ge=30,
        description=f"To train for. Unset: {_IMAGES:,} images, but no fewer than {_FEWEST_UPDATES} updates.",
    )
    processes: int = Field(1, ge=1, description="Of each run, on this machine.")
    against: Literal["bare"] | None = Field(
        None, description="bare: by turns with a bare loop on one batch in memory; adds the ratio."
    )
    rounds: int = Field(1, ge=1, description="Turns of each setting; medians are shown.")


@with_options(BenchConfig)
def bench(config: BenchConfig, origins: dict[str, str], json: Json = False, png: Png = None) -> None:
    """Measure images/s, memory, start-up and where the time goes, over batch sizes, devices and precisions."""
    settings = _settings(config)
    if png:
        from accel_train.bench.plot import check_figure

        check_figure(png)
    data = config.data or f"synthetic:{max(setting.images for setting in settings)},1,28,28,10"
    title = f"{config.model} on {data}, {config.processes} process{'es' * (config.processes > 1)}"
    measured = _measure(config, data, settings)
    rows = _print_records(measured) if json else _show_table(title, measured)
    if png:
        from accel_train.bench.plot import draw

        draw(png, title, rows)


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
            updates=config.updates or max(_FEWEST_UPDATES, _IMAGES // (size * config.processes)),
        )
        for device, precision, compile, size in itertools.product(_devices(config.devices), precisions, compiled, sizes)
    ]


def _measure(config: BenchConfig, data: str, settings: list[Setting]) -> Iterator[Row]:
    from accel_train.bench.measure import Work, measure

    work = Work(data, config.model, config.augment)
    for setting in settings:
        yield measure(work, setting, against_bare=config.against is not None, rounds=config.rounds)


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
