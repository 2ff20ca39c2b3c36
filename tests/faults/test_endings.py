"""However a run ends, it is saved or goes on: signals, limits, suspension, and streams that are gone, everywhere."""

import itertools
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGTERM, SIGTSTP, SIGUSR2, SIGXCPU, Signals
from typing import Any

import psutil
import pytest
from helpers.faults import ENDLESS, JOB_OF_A_SHELL, TINY, Program, Terminal, closing, finished, ranks, started
from helpers.marks import by_target, slow
from helpers.processes import SLOWER, wait_for_end, wait_until
from helpers.runner import LAUNCHERS, read_metrics
from PIL import Image

from accel_train.checkpoints.store import newest_valid, update_of

PLACES = list(itertools.product(LAUNCHERS, (1, 2)))
BRIEF = (*TINY, "--epochs", "12", "--save-every", "1epoch")


def epochs(output: Path) -> int:
    """Return the number of epochs that a run has recorded."""
    try:
        return len(read_metrics(output, "epoch"))
    except (FileNotFoundError, json.JSONDecodeError):  # not yet, or a line is being written
        return 0


@contextmanager
def training(folder: Path, launcher: str, processes: int, **given: object) -> Iterator[Program]:
    """Start an endless run in the folder `run`, and wait for an epoch; check in the end that no process is left."""
    output = folder / "run"
    with started(folder, *ENDLESS, "--output", output, launcher=launcher, processes=processes, **given) as program:  # type: ignore[arg-type]
        program.wait_for(lambda: epochs(output) > 0)
        tree = program.tree()
        assert len(tree) >= processes
        yield program
        for process in tree:
            wait_for_end(process, 10)


def assert_saved(folder: Path) -> None:
    """Check that the last checkpoint of a run holds the updates that it has trained, and that it is resumed."""
    output = folder / "run"
    checkpoint, problems = newest_valid(output / "checkpoints")
    assert checkpoint
    assert problems == []
    assert update_of(checkpoint) >= read_metrics(output, "epoch")[-1]["update"]
    with started(folder, *ENDLESS, "--output", output) as program:  # always on one process, which is quick
        program.wait_for(lambda: program.resumed() == update_of(checkpoint))


def assert_code(program: Program, launcher: str, number: Signals) -> None:
    """Check the exit code of a run that a signal has ended; other launchers have codes of their own."""
    code = program.wait(20)
    streams = program.out + program.err
    assert code in ((128 + number,) if launcher == "accel_train" else (1, -number, 256 - number)), streams
    assert launcher != "accel_train" or "Traceback" not in streams, streams


SIGNALS = itertools.product((SIGHUP, SIGUSR2), LAUNCHERS, (1, 2))
QUICK_SIGNALS = [(SIGHUP, "accel_train", 2), (SIGUSR2, "accel_train", 1)]
MORE_SIGNALS = [(SIGHUP, "torchrun", 2), (SIGUSR2, "torchrun", 2), (SIGUSR2, "accelerate", 1)]


@pytest.mark.parametrize(
    ("number", "launcher", "processes"), by_target(SIGNALS, quick=QUICK_SIGNALS, more=MORE_SIGNALS)
)
def test_signal_to_the_command_saves_and_ends_the_run(
    number: Signals, launcher: str, processes: int, tmp_path: Path
) -> None:
    """SIGUSR2 kills other launchers at once: their ranks notice it, and save."""
    with training(tmp_path, launcher, processes) as program:
        os.kill(program.pid, number)
        assert_code(program, launcher, number)
    assert_saved(tmp_path)


@pytest.mark.parametrize(
    ("launcher", "processes"), by_target(PLACES, quick=[("accel_train", 2)], more=[("torchrun", 2)])
)
def test_cpu_limit_saves_and_ends_the_run(launcher: str, processes: int, tmp_path: Path) -> None:
    with training(tmp_path, launcher, processes) as program:
        for rank in program.ranks():
            used = sum(rank.cpu_times()[:2])
            rank.rlimit(resource.RLIMIT_CPU, (int(used) + 1, resource.RLIM_INFINITY))
        assert_code(program, launcher, SIGXCPU)
    assert_saved(tmp_path)


@pytest.mark.parametrize(
    ("launcher", "processes"), by_target(PLACES, quick=[("accel_train", 2)], more=[("torchrun", 2)])
)
def test_suspended_run_goes_on_when_it_is_continued(launcher: str, processes: int, tmp_path: Path) -> None:
    """Ctrl-Z stops the ranks of accel_train's launcher; other launchers start theirs in sessions of their own."""
    output = tmp_path / "run"
    with training(tmp_path, launcher, processes, wrapper=JOB_OF_A_SHELL) as shell:
        (command,) = psutil.Process(shell.pid).children()
        members = [command, *ranks(command)]
        os.killpg(command.pid, SIGTSTP)
        wait_until(lambda: command.status() == psutil.STATUS_STOPPED, 5)
        if launcher == "accel_train":
            wait_until(lambda: all(member.status() == psutil.STATUS_STOPPED for member in members), 5)
        before = epochs(output)
        os.killpg(command.pid, SIGCONT)
        shell.wait_for(lambda: epochs(output) > before + 2)
        command.send_signal(SIGTERM)
        assert_code(shell, launcher, SIGTERM)
    assert_saved(tmp_path)


@pytest.mark.parametrize(
    ("launcher", "processes"), by_target(PLACES, quick=[("accel_train", 1)], more=[("accel_train", 2), ("torchrun", 2)])
)
def test_terminal_that_is_gone_saves_and_ends_the_run(launcher: str, processes: int, tmp_path: Path) -> None:
    terminal = Terminal()
    with training(tmp_path, launcher, processes, streams=terminal.streams) as program:
        terminal.close()
        program.process.join(20 * SLOWER)
        code = program.process.exitcode
        assert code == 128 + SIGHUP if launcher == "accel_train" else code != 0
    assert_saved(tmp_path)


@pytest.mark.parametrize(
    ("launcher", "processes"), by_target(PLACES, quick=[("accel_train", 2)], more=[("torchrun", 2)])
)
def test_run_finishes_although_the_reader_of_its_output_has_gone(launcher: str, processes: int, tmp_path: Path) -> None:
    """As in `accel_train train | head -3`."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    where = {"launcher": launcher, "processes": processes, "streams": {"out": str(pipe)}}
    words = (*TINY, "--epochs", "40", "--output", tmp_path / "run")
    with started(tmp_path, *words, **where) as program:  # type: ignore[arg-type]
        read = b""

        def has_read_3_lines() -> bool:
            nonlocal read
            with suppress(BlockingIOError):
                read += os.read(reader, 4096)
            return read.count(b"\n") >= 3

        program.wait_for(has_read_3_lines)
        os.close(reader)
        program.process.join(20 * SLOWER)
        assert program.process.exitcode == 0, program.err
        assert launcher != "accel_train" or "the console is closed, the run continues: Broken pipe" in program.err
        assert "Traceback" not in program.err
    assert epochs(tmp_path / "run") == 40
    assert (tmp_path / "run" / "model.safetensors").is_file()


CLOSED = itertools.product(((1,), (2,), (0, 1, 2)), LAUNCHERS, (1, 2))


@pytest.mark.parametrize(
    ("closed", "launcher", "processes"),
    by_target(
        CLOSED,
        quick=[((0, 1, 2), "accel_train", 2)],
        more=[((1,), "accel_train", 1), ((2,), "accel_train", 1)],
    ),
)
def test_run_finishes_with_closed_streams(
    closed: tuple[int, ...], launcher: str, processes: int, tmp_path: Path
) -> None:
    where = {"launcher": launcher, "processes": processes, "wrapper": closing(*closed)}
    with started(tmp_path, *BRIEF, "--output", tmp_path / "run", **where) as program:  # type: ignore[arg-type]
        program.process.join(20 * SLOWER)
        assert program.process.exitcode == 0, program.out + program.err
    assert epochs(tmp_path / "run") == 12
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert "epoch 12/12" in program.out or 1 in closed
    assert "Traceback" not in program.err
    assert "error:" not in program.err


def test_hard_limit_of_cpu_time_saves_before_it_kills(tmp_path: Path) -> None:
    """`ulimit -t` sets both limits, and the kernel sends no SIGXCPU at the hard one."""
    with training(tmp_path, "accel_train", 1, wrapper=("sh", "-c", 'ulimit -t 12; exec "$@"', "sh")) as program:
        soft, hard = psutil.Process(program.pid).rlimit(resource.RLIMIT_CPU)
        assert (soft, hard) == (9, 12)
        psutil.Process(program.pid).rlimit(resource.RLIMIT_CPU, (1, 12))
        assert_code(program, "accel_train", SIGXCPU)
    assert_saved(tmp_path)


def writes_to(pid: int, path: Path) -> bool:
    """Return whether a process has opened a file as its standard output."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/fd/1").samefile(path)
    return False


@pytest.mark.parametrize("streams", ["pipe", slow("closed")])
def test_pack_finishes_without_a_reader(streams: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / "src" / name).mkdir(parents=True)
        for number in range(5):
            Image.effect_noise((8, 8), 40).convert("RGB").save(tmp_path / "src" / name / f"{number}.png")
    gone = tmp_path / "pipe"
    os.mkfifo(gone)
    reader = os.open(gone, os.O_RDONLY | os.O_NONBLOCK)
    where: dict[str, Any] = {"wrapper": closing(1, 2)} if streams == "closed" else {"streams": {"out": str(gone)}}
    with started(tmp_path, "src", "dst", command="pack", **where) as program:
        if streams == "pipe":
            wait_until(lambda: writes_to(program.pid, gone), 30)  # else it would wait for a reader
        os.close(reader)
        program.process.join(30)
        assert program.process.exitcode == 0, program.err
    assert program.err == ""
    finished(tmp_path, "--data", "dst", "--dry-run")


OTHERS = {
    "evaluate": ("run", "--device", "cpu"),
    "bench": ("--batch-sizes", "8", "--updates", "30", "--data", "synthetic:800,1,8,8,2", "--model", "mlp"),
}
STREAMS = list(itertools.product(OTHERS, ((1,), (2,), (0, 1, 2), "pipe"), (1, 2)))
QUICK_STREAMS = [("evaluate", "pipe", 2), ("evaluate", (1,), 1)]
MORE_STREAMS = [("bench", "pipe", 1)]


@pytest.mark.parametrize(
    ("command", "closed", "processes"),
    by_target(STREAMS, quick=QUICK_STREAMS, more=MORE_STREAMS),
)
def test_other_commands_end_in_order_without_a_reader(
    command: str, closed: tuple[int, ...] | str, processes: int, tmp_path: Path
) -> None:
    """Nobody gets the result if the pipe is gone: 141, as of other programs."""
    if command == "evaluate":
        finished(tmp_path, *TINY, "--epochs", "1", "--output", "run")
    reader, writer = os.pipe()
    os.close(reader)
    where: dict[str, Any] = (
        {"wrapper": ("sh", "-c", f'exec "$@" >/proc/{os.getpid()}/fd/{writer}', "sh")}
        if closed == "pipe"
        else {"wrapper": closing(*map(int, closed))}
    )
    with started(tmp_path, *OTHERS[command], command=command, processes=processes, **where) as program:
        program.process.join(90)
        assert program.process.exitcode == (141 if closed == "pipe" else 0), program.out + program.err
    assert "Traceback" not in program.err
    assert "error:" not in program.err
    os.close(writer)
