"""Starts, watches and kills runs; they are forked from a process that has loaded torch, which takes seconds."""

import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil

from accel_train.cli.app import main
from helpers.processes import wait_until
from helpers.runner import LAUNCHERS

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["accel_train.cli.app", "accel_train.run.session", "helpers.runner"])

ON_CPU = ("--device", "cpu", "--threads", "1")
TINY = ("--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "8", *ON_CPU)
"""24 updates in 3 epochs on one process, within half a second."""
ENDLESS = (*TINY, "--epochs", "100000", "--save-every", "1000000updates")
"""Saves itself only when it is told to stop."""
_VARYING = {
    *("seconds", "seconds_to_first_update", "images_per_second", "data_wait_share", "save_share", "watch_share"),
    "run_folder",
}
"""What two records of the same run need not share."""


@dataclass(frozen=True)
class Program:
    """An accel_train that was started in a session of its own, perhaps with ranks in theirs."""

    process: BaseProcess
    folder: Path
    """Where its streams go."""

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text(encoding="utf-8")

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text(encoding="utf-8")

    @property
    def pid(self) -> int:
        assert self.process.pid
        return self.process.pid

    def ranks(self) -> list[psutil.Process]:
        """Return the processes that train, by rank: itself if it has started none."""
        this = psutil.Process(self.pid)
        started = [child for child in this.children() if child not in loader_workers(this)]
        return sorted(started, key=lambda child: int(child.environ().get("RANK", 0))) or [this]

    def tree(self) -> list[psutil.Process]:
        try:
            parent = psutil.Process(self.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def alive(self) -> list[psutil.Process]:
        """Return all processes that could still write to its streams, also those whose parent has died."""
        return [process for process in psutil.process_iter() if self._has_stream(process)]

    def kill(self) -> None:
        """Kill all processes and their groups at once."""
        for process in self.tree():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in self.alive():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.join()

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until something holds; the program must still run then."""
        wait_until(lambda: condition() or not self.process.is_alive(), seconds)
        assert condition(), self.out + self.err

    def wait_for_epoch(self) -> None:
        self.wait_for(lambda: "\nepoch " in self.out)

    def wait(self, seconds: float = 60) -> int:
        """Return the exit code once no process is left, failing if that takes longer."""
        began = time.monotonic()
        self.process.join(seconds)
        assert self.process.exitcode is not None, f"runs after {seconds} s\n{self.out}{self.err}"
        wait_until(lambda: not self.alive(), max(0.5, began + seconds - time.monotonic()))
        print(f"ended after {time.monotonic() - began:.1f} s")  # for those who want figures: `pytest -rP`
        return self.process.exitcode

    def saved(self) -> int:
        """Return the last update of which it said that it is saved, or 0."""
        return max(_numbers("saved checkpoint update", self.out), default=0)

    def resumed(self) -> int:
        """Return the update that it said it goes on from, or 0."""
        return max(_numbers("resumed from update", self.out), default=0)

    def _has_stream(self, process: psutil.Process) -> bool:
        with suppress(OSError):  # it has ended, or is somebody else's
            return Path(f"/proc/{process.pid}/fd/1").readlink() == self.folder / "out"
        return False


@contextmanager
def started(
    folder: Path, *words: str | Path, launcher: str = "accel_train", processes: int = 1, options: Sequence[str] = ()
) -> Iterator[Program]:
    """Start `accel_train train` with these words, by a launcher with these options; nothing of it lives on."""
    streams = Path(tempfile.mkdtemp(prefix="streams_", dir=folder))
    for name in ("out", "err"):
        (streams / name).touch()
    arguments = ["train", *map(str, words)]
    if launcher == "accel_train":
        arguments += ["--processes", str(processes)] if processes > 1 else []
        process = _FORKS.Process(target=_be_accel_train, args=(arguments, streams))
    else:
        python, dash_m, module, *its_words = LAUNCHERS[launcher](processes)
        arguments = [python, dash_m, module, *options, *its_words, *arguments]
        process = _FORKS.Process(target=_be_launcher, args=(arguments, streams))
    process.start()
    program = Program(process, streams)
    try:
        yield program
    finally:
        program.kill()


def finished(folder: Path, *words: str | Path, code: int = 0) -> Program:
    """Run to the end, which must have this exit code."""
    with started(folder, *words) as program:
        assert program.wait() == code, program.out + program.err
    return program


def loader_workers(rank: psutil.Process) -> list[psutil.Process]:
    """Return the processes that read for a rank: its forks."""
    return [child for child in rank.children() if child.cmdline() == rank.cmdline()]


def assert_same_run(output: Path, baseline: Path) -> None:
    """Check that two folders hold the same weights and history, and that nothing half written is left."""
    for name in ("model.safetensors", "best.safetensors"):
        assert (output / name).read_bytes() == (baseline / name).read_bytes(), name
    assert _history(output) == _history(baseline)
    assert list(output.rglob(".tmp_*")) == []


def _history(output: Path) -> list[dict[str, Any]]:
    lines = (output / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{k: v for k, v in json.loads(line).items() if k not in _VARYING} for line in lines]


def _numbers(label: str, text: str) -> list[int]:
    return [int(number) for number in re.findall(rf"^{label} (\d+)$", text, re.MULTILINE)]


def _be_accel_train(words: list[str], streams: Path) -> None:
    _begin_session(streams)
    sys.argv = ["accel_train", *words]
    main()


def _be_launcher(words: list[str], streams: Path) -> None:
    _begin_session(streams)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job, as these tests may be, ignores it
    os.execve(words[0], words, os.environ | {"HF_HOME": str(streams), "OMP_NUM_THREADS": "1"})


def _begin_session(streams: Path) -> None:
    os.setsid()
    for descriptor, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(streams / name, os.O_WRONLY | os.O_APPEND), descriptor)
