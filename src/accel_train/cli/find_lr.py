"""The command ``find-lr``."""

import json as json_format
import math
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accel_train.cli.find_lr_plot import plot_range
from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.cli.progress import progress, say
from accel_train.cli.table import terminal_width
from accel_train.cli.train_command import train_command
from accel_train.config.find_lr_options import FindLrConfig
from accel_train.config.options import TYPED
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.errors import UserError
from accel_train.history.chart import Curve, chart_lines
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import learning_rate, loss, printable, quantity, quoted
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.run.find_lr import RangeTest
    from accel_train.training.lr_range import Suggestion, Tried

_NOTHING_FOUND = 1
"""Exit code."""
_ABOVE_START = 1.1
"""Times the loss at the start: the highest that the chart shows."""
_REPLACED = {
    "lr": "leave it out, or give --start-lr and --end-lr",
    "lr_scaling": "leave it out: the suggestion is for the batch of the test",
    "lr_base_batch": "leave it out: the suggestion is for the batch of the test",
    "max_lr": "leave it out, or give --end-lr",
}
"""Options that the suggestion replaces, and what to do instead of giving them."""

Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on stdout.")]


@with_options(FindLrConfig, many=True)
def find_lr(config: FindLrConfig, origins: dict[str, str], json: Json = False) -> None:
    """Find a learning rate: train for some updates while it rises, and see where the loss stops falling.

    The updates are those of the run that `accel_train train` would start with the same options. Nothing is saved.
    """
    _refuse_rates(config, origins)
    count = processes_to_start(config.processes)
    if sys.stderr.isatty():  # its result alone goes to files and pipes
        print_first_line(f"LR range test on {config.data}", sys.stderr)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))
    with without_gc():
        from accel_train.run.find_lr import range_test
        from accel_train.training.lr_range import suggest

    with range_test(config, origins) as test:
        tried = list(_shown(test)) if test.is_main else list(test.updates)
    if not test.is_main:
        return
    found = suggest(tried)
    title = f"{config.data}, {test.config.model}, {test.config.optimizer}, {test.plan.global_batch:,} images per update"
    if config.png:
        plot_range(config.png, title, tried, found)
    if json:
        typer.echo(json_format.dumps(portable(_record(test, tried, found)), allow_nan=False))
    else:
        for line in (*_chart(title, tried, found), *_reasons(test, tried, found), *_next(config, origins, test, found)):
            say(printable(line))
    if found.lr is None:
        raise typer.Exit(_NOTHING_FOUND)


def _refuse_rates(config: FindLrConfig, origins: Mapping[str, str]) -> None:
    """Refuse what the test replaces; a file or recipe may have it, as it is that of the run.

    Raises:
        UserError: such an option is given.
    """
    for name, fix in _REPLACED.items():
        if origins.get(name) in TYPED:
            given = f"--{name.replace('_', '-')} {getattr(config, name)}"
            raise UserError(f"{given} has no effect: find-lr tries rising rates, from --start-lr to --end-lr", fix)


def _shown(test: "RangeTest") -> "Iterator[Tried]":
    """Yield the updates of a test, and show how many are done."""
    for notice in test.notices:
        say(f"note: {printable(notice)}", sys.stderr)
    with progress(test.plan.learning_rate.total_updates, sys.stderr, "update") as show:
        for number, tried in enumerate(test.updates, start=1):
            yield tried
            show(number)


def _record(test: "RangeTest", tried: "Sequence[Tried]", found: "Suggestion") -> dict[str, Any]:
    values = asdict(found)
    del values["losses"]
    return {
        "kind": "find-lr",
        **values,
        "limit": test.config.usual_rate.max_lr,
        "global_batch": test.plan.global_batch,
        "batch_size": test.plan.batch_size,
        "processes": test.plan.processes,
        "tried": [{**asdict(each), "smoothed": low} for each, low in zip(tried, found.losses, strict=True)],
    }


def _chart(title: str, tried: "Sequence[Tried]", found: "Suggestion") -> Iterator[str]:
    """Yield the smoothed losses over the logarithm of the learning rate, but not how far they rise in the end."""
    most = _ABOVE_START * found.losses[0]
    points = [(math.log10(each.lr), low) for each, low in zip(tried, found.losses, strict=True) if low < most]
    width = min(terminal_width(), 80)
    yield title
    yield from chart_lines(
        "training loss by learning rate", [Curve("o", points)], width, x_text=lambda x: f"{10**x:.2g}"
    )


def _reasons(test: "RangeTest", tried: "Sequence[Tried]", found: "Suggestion") -> Iterator[str]:
    fell = f"from {loss(found.losses[0])} to {loss(min(found.losses))}"
    if found.lr is None:
        from accel_train.run.find_lr import remedy

        little = f"only fell {fell}" if found.falls_until > tried[0].lr else "did not fall"
        yield f"no suggestion: the loss {little} in {quantity(len(tried), 'update')}"
        yield remedy(test.config, test.plan, tried, found)
        return
    yield f"the loss falls up to a learning rate of {learning_rate(found.falls_until)}, {fell}"
    if found.rises_from is not None:
        yield f"it rises from {learning_rate(found.rises_from)} on"
    if found.diverged_at is not None:
        yield f"it diverges at {learning_rate(found.diverged_at)}"
    if found.rises_from is None and found.diverged_at is None:
        yield f"it still falls at the highest rate tried: try --end-lr {10 * tried[-1].lr:.2g}"
    yield f"suggested peak for {test.plan.global_batch:,} images per update: {found.lr:g}"
    limit = test.config.usual_rate.max_lr
    if found.lr > limit:
        of = f"{test.config.model} with {test.config.optimizer}"
        yield f"above {limit:g}, the limit for {of}: it may diverge; --lr {limit:g} is safer"


def _next(config: FindLrConfig, origins: Mapping[str, str], test: "RangeTest", found: "Suggestion") -> Iterator[str]:
    """Yield the command that trains with the suggestion."""
    if config.png:
        yield f"plot: {quoted(config.png)}"
    if found.lr is not None:
        words = [*train_command(config, origins, without=_REPLACED.keys()), *_rate_options(origins, test, found.lr)]
        yield f"next: {shlex.join(words)}"


def _rate_options(origins: Mapping[str, str], test: "RangeTest", lr: float) -> Iterator[str]:
    """Yield the options that make it the peak at this global batch, whatever rule a file or recipe has."""
    yield from ("--lr", f"{lr:g}")
    from_file = (_REPLACED.keys() & origins.keys()) - {"lr"}
    if from_file:
        yield from ("--lr-scaling", "linear", "--lr-base-batch", str(test.plan.global_batch))
    if "max_lr" in from_file:
        yield from ("--max-lr", f"{lr:g}")
