"""Makes all checks: of each process by itself, of what all report, and of the start of a run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch

from accel_train.config.doctor_options import DoctorConfig
from accel_train.distributed.accelerator import Processes
from accel_train.distributed.environment import by_other_launcher
from accel_train.distributed.exchange import Exchange
from accel_train.distributed.links import Link, measure_links
from accel_train.doctor.accelerate_config import default_file, examine_file
from accel_train.doctor.compare import compare_clocks, compare_pairs, compare_reports, compare_speeds, compare_sums
from accel_train.doctor.finding import Finding, merged
from accel_train.doctor.folder import examine_folder
from accel_train.doctor.machine import Report
from accel_train.doctor.speed import Speed, measure_speed
from accel_train.doctor.steps import Steps
from accel_train.run.build import start_processes

_STOPPING = {"launcher", "open files", "interface", "device", "backend", "versions", "options", "run"}
"""Checks whose failure stops a run at its start, which is then not tried."""


@dataclass(frozen=True)
class Diagnosis:
    """What was found; the lists are by rank, and empty if nothing could be measured."""

    reports: Sequence[Report]
    findings: Sequence[Finding]
    accelerate_config: str = ""
    """What it would start; empty if none was examined."""
    clock_offsets: Sequence[tuple[float, float]] = ()
    """Seconds ahead of rank 0, at least and at most."""
    folder: str = ""
    """Where the file system of the run folder was examined."""
    speeds: Sequence[Speed] = ()
    strategy: str = ""
    """What a run would have; empty if it would not start."""
    links: Sequence[Sequence[Link]] = ()

    @property
    def healthy(self) -> bool:
        return not any(finding.fails for finding in self.findings)


def diagnose(config: DoctorConfig, own: Report, exchange: Exchange) -> Diagnosis:
    """Collective: return what was found on all processes; `own` is the report of this one."""
    steps = Steps(exchange, config.timeout)
    reports = [Report.read(one) for one in steps.take("report", lambda: asdict(own))]
    steps.findings += [finding for report in reports for finding in report.findings]
    steps.findings += compare_reports(reports)
    described = _accelerate_config(config, steps)
    offsets = [(least, most) for least, most in steps.take("clock", exchange.clock_offset)]
    steps.findings += compare_clocks(offsets)
    folder = examine_folder(config.output, [report.host for report in reports], steps)
    speeds: list[Speed] = []
    if reports and all(report.device for report in reports):
        device = torch.device(own.device)
        speeds = [Speed.read(one) for one in steps.take("speed", lambda: asdict(measure_speed(device)))]
        steps.findings += compare_speeds(speeds)
    strategy, links = _start(config, steps)
    return Diagnosis(
        reports=reports or [own],
        findings=merged(steps.findings),
        accelerate_config=described,
        clock_offsets=offsets,
        folder=folder,
        speeds=speeds,
        strategy=strategy,
        links=links,
    )


def _accelerate_config(config: DoctorConfig, steps: Steps) -> str:
    """Return what the configuration of `accelerate launch` would start, unless another launcher has started this."""
    asked = config.accelerate_config
    file = asked or (None if by_other_launcher() else default_file())
    if file is None or steps.exchange.rank > 0:
        return ""
    described, found = examine_file(file, config)
    steps.findings += [replace(finding, fails=asked is not None) for finding in found]
    return f"{file}: {described}"


def _start(config: DoctorConfig, steps: Steps) -> tuple[str, list[list[Link]]]:
    """Collective: start as a run does; return its strategy, and measurements of its network."""
    if any(finding.fails and finding.check in _STOPPING for finding in steps.findings):
        return "", []
    started: list[Processes] = []

    def start_as_run() -> str:
        started.append(start_processes(config))
        return started[0].strategy_name

    strategies = steps.take("start", start_as_run)
    if not strategies:
        return "", []
    measured = steps.take("all-reduce", lambda: list(map(asdict, measure_links(started[0], config.timeout))))
    links = [list(map(Link.read, one)) for one in measured]
    steps.findings += compare_sums(links)
    steps.findings += compare_pairs(links)
    return strategies[0], links
