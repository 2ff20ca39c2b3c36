"""What the doctor prints of several hosts."""

from dataclasses import replace

import pytest

from accel_train.cli.doctor_lines import print_diagnosis
from accel_train.distributed.links import Link
from accel_train.doctor.diagnose import Diagnosis
from accel_train.doctor.finding import Finding
from accel_train.doctor.machine import Report
from accel_train.doctor.speed import Speed

FIRST = Report(
    rank=0,
    host="host0",
    machine=0,
    pid=4711,
    versions={"Python": "3.11.7", "torch": "2.14.1"},
    options={},
    device="cuda:0",
    hardware="NVIDIA H200",
    backend="nccl",
    network="eth0",
    cores=16,
    gpus=1,
    findings=(),
)
LINKS = [Link("nccl", "all", 0.0002, 20.0, 0), Link("nccl", "host0 – host1", 0.0001, 21.0, 0)]
DIAGNOSIS = Diagnosis(
    reports=[FIRST, replace(FIRST, rank=1, host="host1", machine=1, pid=512)],
    findings=[],
    clock_offsets=[(0.0, 0.0), (-125.0, -120.0)],
    folder="/shared",
    speeds=[Speed(50_000.0, 0.0), Speed(20_000.0, 0.0)],
    strategy="DDP",
    links=[LINKS, [replace(link, gb_per_second=12.5, seconds=0.0003) for link in LINKS]],
)


def printed(capsys: pytest.CaptureFixture[str], diagnosis: Diagnosis) -> list[str]:
    print_diagnosis(diagnosis, "torchrun", 2)
    return capsys.readouterr().out.splitlines()


def test_hosts_links_and_clocks_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, DIAGNOSIS) == [
        "software       Python 3.11.7, torch 2.14.1",
        "hardware       NVIDIA H200, 16 cores",
        "processes      2 processes on 2 hosts, launched by torchrun",
        "run folder     examined in /shared",
        "start          a run starts: DDP over nccl",
        "all-reduce     nccl, all: 12.5 GB/s, 4 KiB in 0.3 ms",
        "               nccl, host0 – host1: 12.5 GB/s, 4 KiB in 0.3 ms",
        "rank  host   process  device  network   clock   GFLOP/s  waits for CPU",
        "   0  host0     4711  cuda:0  eth0        0 s  50,000.0             0%",
        "   1  host1      512  cuda:0  eth0     -2 min  20,000.0             0%",
        "healthy: nothing found",
        "next: start the same with train instead of doctor",
    ]


def test_findings_name_rank_and_host(capsys: pytest.CaptureFixture[str]) -> None:
    slow = Finding("slow rank", "computes little", "leave it out", fails=False, ranks=(1,))
    full = Finding("run folder", "/shared is full", "free some space", ranks=(0, 1))
    config = Finding("accelerate config", "it is wrong", "correct it")
    assert printed(capsys, replace(DIAGNOSIS, findings=[full, config, slow]))[-8:] == [
        "FAILS          run folder: all ranks: /shared is full",
        "               fix: free some space",
        "FAILS          accelerate config: it is wrong",
        "               fix: correct it",
        "warning        slow rank: rank 1 on host1: computes little",
        "               fix: leave it out",
        "2 failures, 1 warning",
        "next: mend the first failure, then start the same command again",
    ]


def test_next_command_examines_the_same_run_on_all_devices(capsys: pytest.CaptureFixture[str]) -> None:
    alone = replace(DIAGNOSIS, reports=[replace(FIRST, gpus=4)], clock_offsets=[], speeds=[], links=[])
    print_diagnosis(alone, "accel_train", 1, ["--data", "my pictures", "--model", "resnet18"])
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "next: accel_train doctor --data 'my pictures' --model resnet18 --processes 4"
