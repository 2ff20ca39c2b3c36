"""The processes of a run on one machine listen on the loopback interface only."""

import ipaddress
import itertools
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from helpers.cli import assert_refused
from helpers.marks import slow
from helpers.runner import LAUNCHERS, Runner, clean_environment, rank_environments

OPTIONS = ("--model", "mlp", "--device", "cpu", "--batch-size", "8")
TRAIN = ("train", *OPTIONS, "--limit", "640", "--epochs", "2", "--output", "out")
LISTENING = """
import psutil, sys
from accel_train.distributed import process_group
from accel_train.errors import UserError
try:
    process_group.join("gloo", 30)
    assert process_group.exchange(process_group.host_group(9), [1]) == [[1], [1]]
    found = psutil.Process().net_connections("tcp")
    addresses = [one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN]
    assert process_group.exchange(process_group.host_group(9), [1]) == [[1], [1]]  # neither ends before
    sys.stdout.write(" ".join(addresses) + "\\n")
    process_group.leave()
except UserError as error:
    sys.stdout.write(f"{error.message}\\n")
"""


def addresses(pid: int) -> set[tuple[str, int]]:
    """Return where a process and its children listen for TCP connections."""
    found = set()
    try:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            listening = [one for one in process.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
            found |= {(one.laddr.ip, one.laddr.port) for one in listening}
    except psutil.Error:  # one has just ended
        pass
    return found


def listened(folder: Path, words: list[str], **environment: str) -> set[tuple[str, int]]:
    """Run a program to its end, and return where it and its children have listened."""
    found = set()
    everything = {**clean_environment(), "HF_HOME": str(folder), **environment}
    with subprocess.Popen(
        words, cwd=folder, env=everything, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            while process.poll() is None:
                found |= addresses(process.pid)
                time.sleep(0.02)
            assert process.stderr
            assert process.returncode == 0, process.stderr.read()
        finally:
            process.kill()
    return found


ACCELERATE = [
    *(sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2", "--num_machines", "1"),
    *("--mixed_precision", "no", "--dynamo_backend", "no", "-m", "accel_train"),
]


BENCH = [
    *(*LAUNCHERS["accel_train"](1), "bench", "--model", "mlp", "--devices", "cpu", "--batch-sizes", "8"),
    *("--updates", "30", "--processes", "2", "--against", "bare"),
]


@pytest.mark.parametrize(
    "words", [[*LAUNCHERS["accel_train"](1), *TRAIN, "--processes", "2"], slow([*ACCELERATE, *TRAIN]), slow(BENCH)]
)
def test_started_processes_listen_on_the_loopback_only(run: Runner, words: list[str]) -> None:
    found = listened(run.folder, words)
    assert found
    assert {ip for ip, _ in found if not ipaddress.ip_address(ip).is_loopback} == set()


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1", socket.gethostname()])
def test_joined_processes_listen_on_the_loopback_only(run: Runner, address: str) -> None:
    environments = [place | {"MASTER_ADDR": address, "GLOO_SOCKET_IFNAME": ""} for place in rank_environments(2)]
    ended = run.tasks("-c", LISTENING, environments=environments)
    lists = [line.split() for line in ended.out.splitlines()]
    assert len(lists) == 2, ended.err
    assert all(lists)
    of_host = {place[4][0] for place in socket.getaddrinfo(address, 1)}
    assert {ip for ip in itertools.chain(*lists) if not ipaddress.ip_address(ip).is_loopback} <= of_host


def test_unknown_address_is_an_error(run: Runner) -> None:
    environment = rank_environments(2)[0] | {"MASTER_ADDR": "no.such.host.invalid"}
    ended = run.tasks("-c", LISTENING, environments=[environment])
    assert re.match(r"rank 0 cannot use no.such.host.invalid:\d+: [A-Z].*\n$", ended.out), ended


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_busy_port_is_one_error(run: Runner, address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family, dualstack_ipv6=":" in address) as other:
        port = str(other.getsockname()[1])
        ended = run(*TRAIN, processes=2, MASTER_PORT=port)
    assert ended.code == 2
    assert_refused(ended, f"cannot listen at 127.0.0.1:{port}: Address already in use", "set MASTER_PORT to a free one")


def test_machine_without_a_loopback_is_one_error(run: Runner) -> None:
    script = ["unshare", "-rn", *LAUNCHERS["accel_train"](1), *TRAIN, "--processes", "2"]
    ended = run.program(script)
    assert ended.code == 2
    assert_refused(ended, "cannot listen at 127.0.0.1: Network is unreachable", "bring up the network interface lo")
