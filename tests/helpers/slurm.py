"""A SLURM cluster of two nodes, both this machine, in a folder of its own; needs neither systemd nor /run."""

import getpass
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_PACKAGES = "apt-get install slurm-wlm openmpi-bin"
_SECONDS_TO_START = 30
_SBIN = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
_CONFIG = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
NodeName=node[1-2] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=4
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=FORCE:4
"""
"""For SLURM 22.05, Debian 12's."""


def find_program(name: str) -> str:
    """Return the path of a program of Debian's slurm-wlm or openmpi-bin."""
    path = shutil.which(name, path=_SBIN)
    if path is None:
        pytest.fail(f"{name} is not installed: {_PACKAGES}")
    return path


@contextmanager
def cluster() -> Iterator[dict[str, str]]:
    """Start SLURM's daemons; yield the environment in which srun, sbatch and scancel find them."""
    programs = [find_program(name) for name in ("munged", "slurmctld", "slurmd", "srun")]
    # Not below pytest's folder, which is closed to other users: munged refuses that.
    with tempfile.TemporaryDirectory(prefix="slurm_") as name, ExitStack() as daemons:
        folder = Path(name)
        folder.chmod(0o755)
        environment = _write_files(folder)
        files = [
            f"--{kind}={folder}/munge.{kind}" for kind in ("socket", "pid-file", "key-file", "log-file", "seed-file")
        ]
        daemons.enter_context(_daemon([programs[0], "--foreground", *files], environment))
        _wait_for(folder, (folder / "munge.socket").exists)
        daemons.enter_context(_daemon([programs[1], "-D", "-c"], environment))
        for node in ("node1", "node2"):
            daemons.enter_context(_daemon([programs[2], "-D", "-N", node], environment))
        _wait_for(folder, lambda: _states(environment) == ["idle"])
        try:
            yield environment
        finally:
            subprocess.run(["scancel", "--user", getpass.getuser()], env=environment, check=False)
            _wait_for(folder, lambda: not _print(["squeue", "-h"], environment))


def _write_files(folder: Path) -> dict[str, str]:
    (folder / "state").mkdir()
    key = folder / "munge.key-file"
    key.touch(0o600)
    key.write_bytes(os.urandom(128))
    config = folder / "slurm.conf"
    host = socket.gethostname().partition(".")[0]
    config.write_text(_CONFIG.format(folder=folder, host=host, user=getpass.getuser(), ports=_free_ports(3)))
    return {"PATH": _SBIN, "SLURM_CONF": str(config)}


def _free_ports(count: int) -> list[int]:
    """Return successive free ports, hardly ever those of another cluster that starts now: SLURM binds them later."""
    for first in random.SystemRandom().sample(range(30_000, 32_000, count), 100):
        try:
            with ExitStack() as held:
                for port in range(first, first + count):
                    held.enter_context(socket.socket()).bind(("", port))
                return list(range(first, first + count))
        except OSError:
            continue
    raise AssertionError("no free ports")


@contextmanager
def _daemon(words: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _states(environment: dict[str, str]) -> list[str]:
    return sorted(set(_print(["sinfo", "-h", "-N", "-o", "%T"], environment).split()))


def _print(words: list[str], environment: dict[str, str]) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=30).stdout


def _wait_for(folder: Path, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS_TO_START
    while not condition():
        if time.monotonic() > deadline:
            logs = "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in folder.glob("*.log*"))
            pytest.fail(f"SLURM does not answer\n{logs}")
        time.sleep(0.1)
