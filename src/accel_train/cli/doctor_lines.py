"""What the doctor has found, as rows and a table."""

import shlex
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import typer

from accel_train.cli.table import Column, table_lines, terminal_width
from accel_train.distributed.environment import available_cores, launched
from accel_train.loggers.text import duration, printable, quantity

if TYPE_CHECKING:
    from accel_train.distributed.links import Link
    from accel_train.doctor.diagnose import Diagnosis
    from accel_train.doctor.finding import Finding
    from accel_train.loggers.rows import Row


def print_diagnosis(diagnosis: "Diagnosis", launcher: str, processes: int, options: Sequence[str] = ()) -> None:
    """Print what was found, and what to do next; `options` are those given of the run, excluding --processes."""
    from accel_train.loggers.rows import RunConsole, print_rows

    console = RunConsole(file=sys.stdout, highlight=False)
    print_rows(console, list(_rows(diagnosis, launcher, processes)))
    if diagnosis.speeds:
        for line in table_lines(list(_columns(diagnosis)), terminal_width()):
            typer.echo(line)
    for finding in diagnosis.findings:
        message = f"{finding.check}: {_where(finding, diagnosis)}{finding.message}"
        print_rows(console, [("FAILS" if finding.fails else "warning", message), ("", f"fix: {finding.fix}")])
    typer.echo(_conclusion(diagnosis))
    typer.echo(printable(_next(diagnosis, processes, options)))


def _rows(diagnosis: "Diagnosis", launcher: str, processes: int) -> Iterator["Row"]:
    first, hosts = diagnosis.reports[0], {(one.machine, one.host) for one in diagnosis.reports}
    yield "software", ", ".join(f"{name} {version}" for name, version in first.versions.items())
    yield "hardware", f"{first.hardware}, {quantity(first.cores, 'core')}"
    where = f" on {quantity(len(hosts), 'host')}" * (len(hosts) > 1)
    yield "processes", f"{quantity(processes, 'process', 'processes')}{where}, launched by {launcher}"
    if diagnosis.accelerate_config:
        yield "accelerate", diagnosis.accelerate_config
    if diagnosis.folder:
        yield "run folder", f"examined in {diagnosis.folder}"
    yield "start", _started(diagnosis, processes)
    links = [link for by_rank in diagnosis.links for link in by_rank]
    measured = dict.fromkeys((link.backend, link.between) for link in links)
    for number, (backend, between) in enumerate(measured):
        slowest = _slowest([one for one in links if (one.backend, one.between) == (backend, between)])
        yield "" if number else "all-reduce", f"{backend}, {between}: {slowest}"


def _started(diagnosis: "Diagnosis", processes: int) -> str:
    if not diagnosis.strategy:
        return "a run does not start"
    started = "a run starts" if diagnosis.healthy else "the processes start"
    return f"{started}: {diagnosis.strategy}" + f" over {diagnosis.reports[0].backend}" * (processes > 1)


def _slowest(links: Sequence["Link"]) -> str:
    bandwidth, seconds = min(link.gb_per_second for link in links), max(link.seconds for link in links)
    return f"{bandwidth:.3g} GB/s, 4 KiB in {1000 * seconds:.3g} ms"


def _columns(diagnosis: "Diagnosis") -> Iterator[Column]:
    reports = diagnosis.reports
    yield Column("rank", [str(report.rank) for report in reports], 9)
    yield Column("host", [report.host for report in reports], 8, left=True)
    yield Column("process", [str(report.pid) for report in reports], 1)
    yield Column("device", [report.device for report in reports], 7, left=True)
    yield Column("network", [report.network for report in reports], 3, left=True)
    if diagnosis.clock_offsets:
        yield Column("clock", [_offset(*offset) for offset in diagnosis.clock_offsets], 4)
    yield Column("GFLOP/s", [f"{speed.gflops:,.1f}" for speed in diagnosis.speeds], 6)
    yield Column("waits for CPU", [f"{speed.waited:.0%}" for speed in diagnosis.speeds], 5)


def _offset(least: float, most: float) -> str:
    """Return how far a clock is ahead at least."""
    if least <= 0 <= most:
        return "0 s"
    return f"+{duration(least)}" if least > 0 else f"-{duration(-most)}"


def _where(finding: "Finding", diagnosis: "Diagnosis") -> str:
    """Return the processes of a finding as the start of a sentence; nothing if there is only one process."""
    if not finding.ranks or len(diagnosis.reports) == 1:
        return ""
    if len(finding.ranks) == len(diagnosis.reports):
        return "all ranks: "
    hosts = {one.rank: one.host for one in diagnosis.reports}
    several = len(set(hosts.values())) > 1
    names = [f"{rank} on {hosts[rank]}" if several and rank in hosts else str(rank) for rank in finding.ranks]
    return f"rank{'s' if len(names) > 1 else ''} {', '.join(names)}: "


def _conclusion(diagnosis: "Diagnosis") -> str:
    failures = sum(finding.fails for finding in diagnosis.findings)
    warnings = len(diagnosis.findings) - failures
    if not diagnosis.findings:
        return "healthy: nothing found"
    return f"{quantity(failures, 'failure')}, {quantity(warnings, 'warning')}"


def _next(diagnosis: "Diagnosis", processes: int, options: Sequence[str]) -> str:
    if not diagnosis.healthy:
        return "next: mend the first failure, then start the same command again"
    devices = diagnosis.reports[0].gpus or available_cores()
    if processes == 1 and devices > 1 and not launched():
        return f"next: {shlex.join(['accel_train', 'doctor', *options, '--processes', str(devices)])}"
    return "next: start the same with train instead of doctor"
