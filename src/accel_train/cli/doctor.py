"""The command ``doctor``."""

import json as json_format
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from accel_train.cli.doctor_lines import print_diagnosis
from accel_train.cli.first_line import print_first_line
from accel_train.cli.options import with_options
from accel_train.cli.train_command import train_command
from accel_train.config.doctor_options import DoctorConfig
from accel_train.distributed.environment import launcher_name, local_rank, world_size
from accel_train.distributed.launcher import processes_to_start, start_processes
from accel_train.doctor.finding import Finding
from accel_train.errors import LocalError, UserError
from accel_train.loggers.jsonl import portable
from accel_train.loggers.text import quantity
from accel_train.system.process import without_gc

if TYPE_CHECKING:
    from accel_train.doctor.diagnose import Diagnosis

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
_SECONDS_FOR_LOCAL_RANK_0 = 3.0
_FAILS = 1
"""Exit code."""


@with_options(DoctorConfig, many=True)
def doctor(config: DoctorConfig, origins: dict[str, str], json: Json = False) -> None:
    """Find out why a run does not start or is slow here: takes the options of train; exit code 1 if anything fails."""
    before: list[Finding] = []
    count = 1
    try:
        count = processes_to_start(config.processes)
    except UserError as error:
        before.append(Finding.of("launcher", error))
    doing = f"examining {quantity(max(count, world_size()), 'process', 'processes')}"
    print_first_line(doing, sys.stderr if json else sys.stdout)
    if count > 1:
        raise typer.Exit(start_processes(count, sys.argv[1:]))
    healthy = _examine(config, origins, before, json)
    raise typer.Exit(0 if healthy else _FAILS)


def _examine(config: DoctorConfig, origins: dict[str, str], before: Sequence[Finding], json: bool) -> bool:
    """Collective: examine all processes and report; return whether nothing fails."""
    with without_gc():
        from accel_train.distributed.exchange import Exchange
        from accel_train.doctor.diagnose import Diagnosis, diagnose
        from accel_train.doctor.machine import examine_process

    _, _, *options = train_command(config, origins, without={"processes"})
    own = examine_process(config, before, origins)
    try:
        exchange = Exchange.open(config.timeout)
    except UserError as error:
        if local_rank() > 0 and not isinstance(error, LocalError):
            time.sleep(_SECONDS_FOR_LOCAL_RANK_0)  # which reports it; a launcher ends all when the first one ends
        else:
            _report(Diagnosis([own], (*own.findings, Finding.of("meeting", error))), json, options)
        return False
    diagnosis = diagnose(config, own, exchange)
    if exchange.rank == 0:
        _report(diagnosis, json, options)
    exchange.close()
    return diagnosis.healthy


def _report(diagnosis: "Diagnosis", json: bool, options: Sequence[str]) -> None:
    started = {"kind": "doctor", "healthy": diagnosis.healthy, "launcher": launcher_name(), "processes": world_size()}
    if json:
        typer.echo(json_format.dumps(portable({**started, **asdict(diagnosis)}), allow_nan=False))
    else:
        print_diagnosis(diagnosis, launcher_name(), world_size(), options)
