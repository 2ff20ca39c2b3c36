"""Hosts of a cluster on one machine: namespaces for network, processes, mounts and names, joined by a switch.

A host is a process that holds its namespaces; they vanish with it, so nothing is left behind however a test ends. All
hosts see the same files, as on a shared file system, except /etc/hosts and /dev/shm.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from helpers import warm
from helpers.faults import Program
from helpers.runner import Ended, clean_environment, without_report

PORT = "29500"
_RELAY = Path(__file__).with_name("relay.py")
_HOLD = """
mount --make-rprivate / && mount -t tmpfs none /dev/shm && mount --bind "$1" /etc/hosts &&
hostname "$2" && ip link set lo up && echo up && exec sleep infinity
"""


def places(address: str = "10.0.0.1", hosts: int = 2, ranks: tuple[int, ...] = (0, 1)) -> list[dict[str, str]]:
    """Return what a launcher tells one process on each host; process i is of host i and has the i-th rank."""
    return [
        {
            **{"RANK": str(rank), "WORLD_SIZE": str(hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
            **{"GROUP_RANK": str(host), "MASTER_ADDR": address, "MASTER_PORT": PORT},
        }
        for host, rank in enumerate(ranks)
    ]


class Host:
    """A machine with one network interface, `eth0`, that is up until it loses its power."""

    def __init__(self, number: int, hosts_file: Path) -> None:
        self.name = f"host{number}"
        self.address = f"10.0.0.{number + 1}"
        kinds = ("--net", "--uts", "--mount", "--pid", "--ipc", "--mount-proc")
        self._holder = subprocess.Popen(
            [
                "setpriv",
                "--pdeathsig",
                "KILL",
                "unshare",
                *kinds,
                "--fork",
                "--kill-child",
                "sh",
                "-c",
                _HOLD,
                "sh",
                str(hosts_file),
                self.name,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout
        if self._holder.stdout.readline() != "up\n":
            raise RuntimeError(f"no namespaces for a host (root and iproute2 are needed): {self._holder.communicate()}")
        self.pid = int(Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()[0])
        """Of its first process."""
        self.place = warm.Place(self.pid, hosts_file)

    @property
    def enter(self) -> list[str]:
        """Return words before a command that start it on this host, in the current folder."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--mount", "--pid", "--ipc", "--wd=."]

    def do(self, command: str) -> None:
        """Run a command of iproute2 and the like on this host."""
        subprocess.run(["nsenter", "--target", str(self.pid), "--net", *command.split()], check=True, timeout=10)

    def kill(self) -> None:
        """Kill all of its processes; their peers hear of it, as the kernel closes their connections."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, 9)
        self._holder.kill()
        self._holder.communicate()


class Cluster:
    """Hosts on one switch, which are named in the /etc/hosts of each."""

    def __init__(self, folder: Path, hosts_files: Sequence[str], *, delay: float, loss: float) -> None:
        self._folder = folder
        self._files = hosts_files
        self._slow = (delay, loss) if delay or loss else None
        self._relay: subprocess.Popen[bytes] | None = None
        self.switch = self._start(len(hosts_files), "127.0.0.1 localhost")
        self.hosts: list[Host] = []
        self._programs: list[Program] = []

    def plug_in(self) -> None:
        """Start all hosts, and the switch between them."""
        for bridge in range(2 if self._slow else 1):
            self.switch.do(f"ip link add br{bridge} type bridge")
            self.switch.do(f"ip link set br{bridge} up")
        if self._slow:
            words = [*self.switch.enter, sys.executable, str(_RELAY), *map(str, self._slow)]
            self._relay = subprocess.Popen(words, stdout=subprocess.PIPE)
            assert self._relay.stdout
            assert self._relay.stdout.readline() == b"up\n"
            for bridge in range(2):
                self.switch.do(f"ip link set tap{bridge} master br{bridge} up")
        for number in range(len(self._files)):
            self.hosts.append(self._start(number, self._files[number]))
            self._plug_in(number)

    def cut(self, number: int) -> None:
        """Cut a host off the network, without a word to its peers."""
        self.switch.do(f"ip link delete port{number}")

    def lose_power(self, number: int) -> None:
        """Let a host vanish, without a word to its peers."""
        self.cut(number)
        self.hosts[number].kill()

    def start_again(self, number: int) -> None:
        """Start a host that was killed."""
        self.hosts[number] = self._start(number, self._files[number])
        self._plug_in(number)

    def start(self, number: int, words: Sequence[str], **environment: str) -> Program:
        """Start a command on a host."""
        return self._start_program(number, [*self.hosts[number].enter, *words], environment, forked=False)

    def start_ranks(self, words: Sequence[str], places: Sequence[Mapping[str, str]]) -> list[Program]:
        """Start forked processes of accel_train, each on the host that its GROUP_RANK says, with its own MORE words.

        They live until they are killed one by one, also if their host is killed.
        """
        command = [sys.executable, "-m", "accel_train", *without_report(*words)]
        return [
            self._start_program(
                int(place["GROUP_RANK"]), [*command, *place.get("MORE", "").split()], place, forked=True
            )
            for place in places
        ]

    def run(self, words: Sequence[str], places: Sequence[Mapping[str, str]], seconds: float = 60) -> list[Ended]:
        """Run forked processes of accel_train to their ends."""
        started = self.start_ranks(words, places)
        return [Ended(program.wait(seconds), program.out, program.err) for program in started]

    def close(self) -> None:
        for program in self._programs:
            program.kill()
        for host in (*self.hosts, self.switch):
            host.kill()
        if self._relay:
            self._relay.kill()
            self._relay.communicate()

    def _start_program(
        self, number: int, words: Sequence[str], environment: Mapping[str, str], *, forked: bool
    ) -> Program:
        streams = self._folder / f"streams_{len(self._programs)}"
        streams.mkdir()
        for name in ("out", "err"):
            (streams / name).touch()
        everything = {**clean_environment(), "HF_HOME": str(streams), **environment}
        place = self.hosts[number].place if forked else None
        process = warm.start(
            words, folder=self._folder, environment=everything, streams=streams, forked=forked, place=place
        )
        self._programs.append(Program(process, streams))
        return self._programs[-1]

    def _start(self, number: int, hosts_file: str) -> Host:
        path = self._folder / f"hosts_{number}"
        path.write_text(hosts_file, encoding="utf-8")
        return Host(number, path)

    def _plug_in(self, number: int) -> None:
        host = self.hosts[number]
        bridge = min(number, 1) if self._slow else 0
        self.switch.do(f"ip link add port{number} type veth peer name eth0 netns {host.pid}")
        self.switch.do(f"ip link set port{number} master br{bridge} up")
        host.do(f"ip address add {host.address}/24 dev eth0")
        host.do("ip link set eth0 up")


@contextmanager
def cluster(
    folder: Path, hosts_files: Sequence[str] | None = None, *, delay: float = 0.0, loss: float = 0.0
) -> Iterator[Cluster]:
    """Yield a cluster of two hosts that know each other's name, or one host for each /etc/hosts given.

    The network delays packets by `delay` seconds and loses a share of them.
    """
    known = "127.0.0.1 localhost\n10.0.0.1 host0\n10.0.0.2 host1\n"
    started = Cluster(folder, hosts_files or [known, known], delay=delay, loss=loss)
    try:
        started.plug_in()
        yield started
    finally:
        started.close()
