"""The command ``replay``."""

import json as json_format
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.config.fields import expand_home
from accel_train.config.replay_options import ReplayConfig
from accel_train.distributed.environment import by_other_launcher, launched, launched_rank
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.history.checks import WEIGHTS, Check, differing
from accel_train.history.comparison import QUANTITIES
from accel_train.history.run import read_run
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import learning_rate, loss, printable, quantity, quoted
from accel_train.system.atomic_files import refuse_unwritable
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.run.replay import Replayed

_DIFFERS = 1
"""Exit code."""
_LISTED = 5
"""Updates of a row at most."""

Run = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")]
Update = Annotated[int, typer.Option("--update", metavar="<int>", min=1, help="Update to compute, counted from 1.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON line on stdout.")]


@with_options(ReplayConfig)
def replay(config: ReplayConfig, origins: dict[str, str], run: Run, update: Update, json: Json = False) -> None:
    """Compute an update of a run again, and compare images, gradient and weights to the last bit; exit 1 if any differ.

    It starts from the checkpoint before the update, or from the beginning, with as many processes as the run.
    """
    if config.show:
        refuse_unwritable(config.show, "--show", ".png")
    folder = expand_home(run)
    count = processes_to_start(config.processes or _processes_of(folder))
    if sys.stderr.isatty():
        print_first_line(f"replaying update {update:,} of {folder}", sys.stderr)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))

    with without_gc():
        from accel_train.run.contact_sheet import write_sheet
        from accel_train.run.replay import replay as replay_run

    found = replay_run(folder, update, config, origins)
    if launched_rank() > 0:
        return
    if config.show:
        write_sheet(config.show, _title(found), found.images, "--show")
    if json:
        typer.echo(json_format.dumps(portable(_record(found)), allow_nan=False))
    else:
        for line in _lines(found, config.show):
            typer.echo(printable(line))
    if not found.checks or differing(found.checks):
        raise typer.Exit(_DIFFERS)


def _processes_of(folder: Path) -> int | None:
    """Return the number of processes that a run had, if it has stored that and no launcher decides."""
    if launched() or by_other_launcher():
        return None
    processes = read_run(folder).started.get("world_size")
    return processes if isinstance(processes, int) else None


def _record(found: "Replayed") -> dict[str, object]:
    different = differing(found.checks)
    return {
        "run_folder": found.run_folder,
        "update": found.values.update,
        "values": asdict(found.values),
        "checkpoint": found.checkpoint,
        "first_update": found.first,
        "last_update": found.last,
        "agrees": different is None if found.checks else None,
        "first_difference": asdict(different) if different else None,
        "checks": [{**asdict(check), "agrees": check.agrees} for check in found.checks],
        "notes": found.notes,
    }


def _title(found: "Replayed") -> list[str]:
    some = f"{len(found.images):,} of the " * (len(found.images) < found.global_batch)
    return [
        f"{found.run_folder}: {some}{quantity(found.global_batch, 'image')} of update {found.values.update:,}",
        _values(found),
    ]


def _values(found: "Replayed") -> str:
    values = found.values
    return (
        f"update {values.update:,}: learning rate {learning_rate(values.lr)}, loss {loss(values.local_loss)}, "
        f"gradient norm {values.gradient_norm:.4g}"
    )


def _lines(found: "Replayed", shown: Path | None) -> Iterator[str]:
    start = f"checkpoint {found.checkpoint}" if found.checkpoint else "the beginning"
    yield f"{found.run_folder}: computed updates {found.first:,} to {found.last:,} from {start}"
    yield from (f"note: {note}" for note in found.notes)
    yield _values(found)
    for name in _compared(found.checks):
        yield f"  {name.ljust(15)}{_agreement([check for check in found.checks if check.quantity == name])}"
    yield _verdict(found)
    if shown:
        yield f"{quoted(shown)}: {quantity(len(found.images), 'image')} of update {found.values.update:,}"


def _agreement(checks: Sequence[Check]) -> str:
    different = differing(checks)
    if different is None:
        places = list(dict.fromkeys(f"{check.update:,}" for check in checks))
        more = f" and {len(places) - _LISTED:,} more" * (len(places) > _LISTED)
        return f"equal at update{'s' * (len(places) > 1)} {', '.join(places[:_LISTED])}{more}"
    where = f" ({different.where})" if different.where else ""
    return f"differs first at update {different.update:,}{where}: was {different.recorded}, is {different.replayed}"


def _verdict(found: "Replayed") -> str:
    update = f"update {found.values.update:,}"
    if not found.checks:
        return f"{update}: the run has stored nothing to compare with"
    if different := differing(found.checks):
        return f"not reproduced: from update {different.update:,} on, {different.quantity} not equal to the last bit"
    *first, last = _compared(found.checks)
    compared = f"{', '.join(first)} and {last}" if first else last
    through = "" if found.logged == found.values.update else ", as the updates around it show"
    return f"{update} agrees bit for bit{through}: {compared}"


def _compared(checks: Sequence[Check]) -> list[str]:
    """Return what was compared, in the order of cause and effect."""
    found = {check.quantity for check in checks}
    return [name for name in (*QUANTITIES, WEIGHTS) if name in found]
