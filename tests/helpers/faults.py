"""Starts, watches and kills runs."""

import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from helpers import warm
from helpers.processes import SLOWER, wait_until
from helpers.runner import LAUNCHERS, clean_environment, without_report

ON_CPU = ("--device", "cpu", "--threads", "1")
TINY = ("--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "8", *ON_CPU)
"""8 updates an epoch on one process; 3 epochs take a fifth of a second."""
ENDLESS = (*TINY, "--epochs", "100000", "--save-every", "1000000updates")
"""Saves only when it is stopped."""
_VARYING = {
    *("seconds", "seconds_to_first_update", "images_per_second", "data_wait_share", "save_share", "watch_share"),
    *("run_folder", "time", "command"),
}
"""Fields of a record that may differ between two identical runs."""


@dataclass(frozen=True)
class Program:
    """A started accel_train, its ranks included."""

    process: BaseProcess
    folder: Path
    """Contains its output, `out` and `err`."""

    @property
    def out(self) -> str:
        return _text(self.folder / "out")

    @property
    def err(self) -> str:
        return _text(self.folder / "err")

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def ranks(self) -> list[psutil.Process]:
        """Return the processes that train, by rank."""
        return ranks(psutil.Process(self.pid))

    def tree(self) -> list[psutil.Process]:
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def alive(self) -> list[psutil.Process]:
        """Return all processes that can still write to its output, including those whose parent has died."""
        return [process for process in psutil.process_iter() if self._has_stream(process)]

    def kill(self) -> None:
        """Kill all processes and their groups."""
        for process in self.tree():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.alive():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.join()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until a condition holds, and fail if the program ends first."""
        wait_until(lambda: condition() or not self.process.is_alive(), seconds)
        assert condition(), self.out + self.err

    def wait_for_epoch(self) -> None:
        self.wait_for(lambda: "\nepoch " in self.out)

    def wait(self, seconds: float = 60) -> int:
        """Return the exit code when no process is left, and fail if that takes longer (see `SLOWER`)."""
        began = time.monotonic()
        self.process.join(SLOWER * seconds)
        assert self.process.exitcode is not None, f"runs after {SLOWER * seconds} s\n{self.out}{self.err}"
        wait_until(lambda: not self.alive(), seconds)
        print(f"ended after {time.monotonic() - began:.1f} s")  # shown by `pytest -rP`
        return self.process.exitcode

    def saved(self) -> int:
        """Return the last update that it reported as saved, or 0."""
        return max(_numbers("saved checkpoint update", self.out), default=0)

    def resumed(self) -> int:
        """Return the update that it reported to resume from, or 0."""
        return max(_numbers(r"resumed at epoch [\d,]+ of [\d,]+, update", self.out), default=0)

    def _has_stream(self, process: psutil.Process) -> bool:
        with suppress(OSError):  # it has ended, or belongs to another user
            return Path(f"/proc/{process.pid}/fd/1").readlink() == self.folder / "out"
        return False


@contextmanager
def started(
    folder: Path,
    *words: str | Path,
    launcher: str = "accel_train",
    processes: int = 1,
    options: Sequence[str] = (),
    command: str = "train",
    wrapper: Sequence[str] = (),
    forked: bool = True,
    streams: Mapping[str, str] = MappingProxyType({}),
    **environment: str,
) -> Iterator[Program]:
    """Start `accel_train COMMAND WORDS` in a folder, by a launcher with these options; in the end kill what is left.

    A `wrapper` starts the command; if it is no Python, nothing is forked. `streams` are other files for `out` and
    `err`, such as a terminal.
    """
    opened = Path(tempfile.mkdtemp(prefix="streams_", dir=folder))
    for name in ("out", "err"):
        if name in streams:
            (opened / name).symlink_to(streams[name])
        else:
            (opened / name).touch()
    python, dash_m, module, *more = LAUNCHERS[launcher](processes)
    command_line = without_report(command, *map(str, words))
    started = [*wrapper, python, dash_m, module, *options, *more, *command_line]
    if launcher == "accel_train" and processes > 1:
        started += ["--processes", str(processes)]
    program = Program(
        warm.start(
            started,
            folder=folder,
            environment={**clean_environment(), "HF_HOME": str(opened), **environment},
            streams=opened,
            forked=forked and started[0] == sys.executable,
        ),
        opened,
    )
    try:
        yield program
    finally:
        program.kill()


JOB_OF_A_SHELL = (
    *(sys.executable, "-c"),
    "import subprocess, sys; sys.exit(subprocess.Popen(sys.argv[1:], process_group=0).wait())",
)
"""Starts a program as a shell does: the kernel suspends only processes whose parent could continue them."""


def closing(*descriptors: int) -> tuple[str, ...]:
    """Return a command that closes standard streams, as `>&-` does, before it becomes another one."""
    return ("sh", "-c", " ".join(['exec "$@"', *(f"{descriptor}>&-" for descriptor in descriptors)]), "sh")


class Terminal:
    """A terminal for a started program."""

    def __init__(self) -> None:
        self._ends = os.openpty()
        os.set_blocking(self._ends[0], False)
        self.streams = dict.fromkeys(("out", "err"), os.ttyname(self._ends[1]))

    def close(self) -> None:
        """Close it: the kernel sends SIGHUP to the program, and refuses all further output."""
        for end in reversed(self._ends):
            os.close(end)


def finished(folder: Path, *words: str | Path, code: int = 0) -> Program:
    """Run to the end and check the exit code."""
    with started(folder, *words) as program:
        assert program.wait() == code, program.out + program.err
    return program


def ranks(launcher: psutil.Process) -> list[psutil.Process]:
    """Return the processes that train, by rank: the launcher itself if it has started no others."""
    started = [child for child in launcher.children() if child not in loader_workers(launcher)]
    return sorted(started, key=lambda child: int(child.environ().get("RANK", 0))) or [launcher]


def loader_workers(rank: psutil.Process) -> list[psutil.Process]:
    """Return the loader workers of a rank: its forks."""
    return [
        child
        for child in rank.children()
        if (child.cmdline(), child.environ().get("RANK")) == (rank.cmdline(), rank.environ().get("RANK"))
    ]


def assert_same_run(output: Path, baseline: Path) -> None:
    """Check that two folders have the same weights and history, and that no temporary file is left."""
    for name in ("model.safetensors", "best.safetensors"):
        assert (output / name).read_bytes() == (baseline / name).read_bytes(), name
    assert _history(output) == _history(baseline)
    assert list(output.rglob(".tmp_*")) == []


def _history(output: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    records[0]["config"].pop("output")
    for record in records:
        if record["kind"] == "epoch_by_rank":  # a rank's own means are of the images since the run was resumed
            record["ranks"] = [rank["weights"] for rank in record["ranks"]]
    return [{k: v for k, v in record.items() if k not in _VARYING} for record in records]


def _text(path: Path) -> str:
    """Read a stream; a terminal or pipe has none that is kept."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _numbers(label: str, text: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(rf"^{label} ([\d,]+)$", text, re.MULTILINE)]
