"""No process of a run outlives the run, however it ends, and no end is mistaken for another."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from helpers.processes import lives
from helpers.runner import Runner
from PIL import Image

MINIMAL = ("--data", "synthetic:64,1,8,8,2", "--model", "mlp", "--batch-size", "8", "--processes", "2")
SECONDS_TO_STOP = 10
"""Less than the 30 after which the parent kills: processes must end by themselves."""


@dataclass(frozen=True)
class Running:
    """A run of two processes that has begun to train."""

    parent: subprocess.Popen[str]
    ranks: list[psutil.Process]
    """By rank."""
    output: Path

    def wait_for_all(self, seconds: float) -> tuple[int, str]:
        """Return exit code and stderr of the parent once no process is left, failing if that takes longer."""
        deadline = time.monotonic() + seconds
        while alive := [rank for rank in self.ranks if lives(rank)]:
            assert time.monotonic() < deadline, f"alive after {seconds} s: {alive}"
            time.sleep(0.05)
        _, err = self.parent.communicate(timeout=2)
        return self.parent.returncode, err


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[Callable[[], Running]]:
    """Start `accel_train train --processes 2` with more epochs than anyone waits for; all is killed afterwards."""
    started: list[Running] = []

    def start() -> Running:
        output = tmp_path / "out"
        words = [sys.executable, "-m", "accel_train", "train", *MINIMAL, "--epochs", "1000000", "--output", str(output)]
        parent = subprocess.Popen(
            words,
            env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        ranks: list[psutil.Process] = []
        running = Running(parent, ranks, output)
        started.append(running)
        deadline = time.monotonic() + 60
        while not (output / "metrics.jsonl").exists() or '"epoch"' not in (output / "metrics.jsonl").read_text():
            assert parent.poll() is None, parent.communicate()[1]
            assert time.monotonic() < deadline, "no epoch has ended after 60 s"
            time.sleep(0.1)
        children = psutil.Process(parent.pid).children()
        ranks += sorted(children, key=lambda child: int(child.environ()["RANK"]))
        assert len(ranks) == 2
        return running

    yield start
    for running in started:
        running.parent.kill()
        running.parent.wait()
        for rank in running.ranks:
            with suppress(psutil.NoSuchProcess):
                rank.kill()


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 138)]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_to_the_parent_ends_all(endless: Callable[[], Running], number: signal.Signals, code: int) -> None:
    running = endless()
    running.parent.send_signal(number)
    ended_with, err = running.wait_for_all(SECONDS_TO_STOP)
    assert ended_with == code, err
    assert "Traceback" not in err
    assert "terminate called" not in err
    assert "of 2 " not in err  # nobody was killed
    assert "another process" not in err  # nobody lost a peer


def test_a_second_ctrl_c_ends_all_at_once(endless: Callable[[], Running]) -> None:
    running = endless()
    running.ranks[1].suspend()  # so that they cannot agree on stopping
    for _ in range(2):
        running.parent.send_signal(signal.SIGINT)
        time.sleep(1)
    assert not lives(running.ranks[0])
    running.ranks[1].resume()
    code, err = running.wait_for_all(SECONDS_TO_STOP)
    assert code == 130, err
    assert "ended by a second SIGINT before it could save" in err
    assert "Traceback" not in err


def test_a_killed_parent_takes_its_processes_along(endless: Callable[[], Running]) -> None:
    running = endless()
    running.parent.kill()
    code, err = running.wait_for_all(8)
    assert code == -signal.SIGKILL
    assert "Traceback" not in err


def test_a_killed_process_is_named_and_ends_the_whole_run_as_a_failure(endless: Callable[[], Running]) -> None:
    running = endless()
    running.ranks[1].kill()
    code, err = running.wait_for_all(15)
    assert code == 128 + signal.SIGKILL, err  # the first failure's, not that of those who lost it
    assert "rank 1 of 2 was killed by SIGKILL\n" in err
    assert "rank 0 of 2" not in err  # it noticed in time
    assert "Traceback" not in err


def test_two_processes_end_soon_after_their_last_line_and_leave_no_complaint(run: Runner) -> None:
    words = [sys.executable, "-m", "accel_train", "train", *MINIMAL, "--epochs", "1", "--output", str(run.folder / "o")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        last_line = [time.monotonic() for _ in process.stdout][-1]
        err = process.stderr.read()
        assert process.wait(timeout=15) == 0, err
        assert time.monotonic() - last_line < 15
    assert "destroy_process_group" not in err
    assert "terminate called" not in err
    assert "[W" not in err
    assert "warning" not in err.lower()


def test_a_picture_that_one_process_cannot_read_is_one_error_of_the_whole_run(run: Runner) -> None:
    for name, colour in {"a": "red", "b": "blue"}.items():
        for split, count in {"train": 16, "val": 2}.items():
            (run.folder / "pictures" / split / name).mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (32, 32), colour).save(run.folder / "pictures" / split / name / f"{number}.jpg")
    broken = run.folder / "pictures" / "train" / "a" / "7.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    ended = run("train", "--data", "pictures", "--batch-size", "8", "--epochs", "1", processes=2)
    assert ended.code == 2
    errors = [line for line in ended.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "7.jpg" in errors[0]
    assert ended.err.count("hint:") == 1
    assert "Traceback" not in ended.err
