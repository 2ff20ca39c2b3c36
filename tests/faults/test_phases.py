"""A signal, or a terminal that is gone, ends a command in any phase: saved if there is something to save, no orphan."""

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGTSTP, SIGUSR2, SIGXCPU, Signals
from typing import Any

import psutil
import pytest
from helpers.faults import ENDLESS, JOB_OF_A_SHELL, TINY, Program, Terminal, loader_workers, ranks, started
from helpers.marks import by_target, chaos, slow
from helpers.processes import SLOWER, lives, send_signal, wait_for_end, wait_until
from helpers.runner import LAUNCHERS, Runner, read_metrics
from PIL import Image

from accel_train.checkpoints.store import newest_valid, update_of

SIGNALS = (SIGHUP, SIGUSR2, SIGXCPU)
PLACES = list(itertools.product(LAUNCHERS, (1, 2)))
MODEL = ("--model", "phases:build")


def environment(phase: str, seconds: float = 1.5) -> dict[str, str]:
    """Return the environment of a run whose model makes a phase long."""
    return {"PHASE": phase, "PHASE_SECONDS": str(seconds), "PYTHONPATH": str(Path(__file__).parent)}


@contextmanager
def phased(
    folder: Path,
    phase: str,
    *words: str,
    seconds: float = 1.5,
    processes: int = 1,
    launcher: str = "accel_train",
    **where: Any,
) -> Iterator[Program]:
    """Start a run in the folder `run`; `where` as for `started`."""
    given = (*ENDLESS, *MODEL, *words, "--output", folder / "run")
    where |= environment(phase, seconds)
    with started(folder, *given, processes=processes, launcher=launcher, **where) as program:
        yield program


def reach(program: Program, phase: str) -> None:
    """Wait until rank 0 has reached a phase."""
    marker = program.folder.parent / f"{phase}_0"
    wait_until(lambda: marker.exists() or not program.process.is_alive(), 60)
    assert marker.exists(), program.out + program.err


def saved_update(folder: Path) -> int:
    checkpoint, problems = newest_valid(folder / "run" / "checkpoints")
    assert checkpoint
    assert problems == []
    return update_of(checkpoint)


def assert_resumes(folder: Path) -> None:
    update = saved_update(folder)
    with phased(folder, "none") as program:
        program.wait_for(lambda: program.resumed() == update)


RUNNING = list(itertools.product(("validation", "save", "update"), SIGNALS, (1, 2)))
QUICK = [("validation", SIGHUP, 2), ("save", SIGUSR2, 1), ("save", SIGXCPU, 2), ("update", SIGHUP, 1)]


@pytest.mark.parametrize(("phase", "number", "processes"), by_target(RUNNING, quick=QUICK, more=RUNNING[::9]))
def test_signal_saves_and_ends_a_run_in_any_phase(phase: str, number: Signals, processes: int, tmp_path: Path) -> None:
    words = ("--save-every", "4updates") if phase == "save" else ()
    with phased(tmp_path, phase, *words, processes=processes) as program:
        reach(program, phase)
        os.kill(program.pid, number)
        assert program.wait(20) == 128 + number, program.out + program.err
    assert "Traceback" not in program.err
    assert f"after update {program.saved():,} (saved)" in program.out
    assert program.saved() == saved_update(tmp_path)
    assert_resumes(tmp_path)


@pytest.mark.parametrize(
    ("number", "processes"),
    by_target(itertools.product(SIGNALS, (1, 2)), quick=[(SIGHUP, 2)], more=[(SIGXCPU, 1)]),
)
def test_signal_in_start_up_ends_the_run_at_once(number: Signals, processes: int, tmp_path: Path) -> None:
    with phased(tmp_path, "start-up", processes=processes, seconds=60) as program:
        reach(program, "start-up")
        os.kill(program.pid, number)
        assert program.wait(10) == 128 + number, program.out + program.err
    assert program.err == f"ended by {number.name}, with nothing to save\n"


@pytest.mark.parametrize(
    ("number", "processes"),
    by_target(itertools.product(SIGNALS, (1, 2)), quick=[(SIGHUP, 2)], more=[(SIGXCPU, 1)]),
)
def test_signal_during_the_last_save_lets_the_run_finish(number: Signals, processes: int, tmp_path: Path) -> None:
    with phased(tmp_path, "last save", "--epochs", "2", processes=processes) as program:
        reach(program, "last save")
        os.kill(program.pid, number)
        assert program.wait(20) == 0, program.out + program.err
    assert "ended          all epochs done" in program.out
    assert (tmp_path / "run" / "model.safetensors").is_file()
    assert saved_update(tmp_path) == read_metrics(tmp_path / "run", "epoch")[-1]["update"]


PHASES = {"start-up": (), "validation": (), "save": ("--save-every", "4updates"), "last save": ("--epochs", "2")}
EVERYWHERE = list(itertools.product(PHASES, (1, 2)))


@pytest.mark.parametrize(("phase", "processes"), by_target(EVERYWHERE, quick=[("validation", 2)], more=[("save", 1)]))
def test_terminal_that_is_gone_ends_a_run_in_any_phase(phase: str, processes: int, tmp_path: Path) -> None:
    terminal = Terminal()
    with phased(tmp_path, phase, *PHASES[phase], processes=processes, streams=terminal.streams) as program:
        reach(program, phase)
        tree = program.tree()
        terminal.close()
        program.process.join(20 * SLOWER)
        for process in tree:
            wait_for_end(process, 10)
    assert program.process.exitcode == (0 if phase == "last save" else 128 + SIGHUP)
    if phase == "start-up":
        assert not (tmp_path / "run" / "checkpoints").exists()
    elif phase == "last save":
        assert saved_update(tmp_path) == read_metrics(tmp_path / "run", "epoch")[-1]["update"]
    else:
        assert_resumes(tmp_path)


@pytest.mark.parametrize(("phase", "processes"), by_target(EVERYWHERE, quick=[("save", 2)], more=[("last save", 2)]))
def test_run_suspended_in_any_phase_finishes_once_it_is_continued(phase: str, processes: int, tmp_path: Path) -> None:
    words = (*PHASES[phase], "--epochs", "2")
    with phased(tmp_path, phase, *words, processes=processes, wrapper=JOB_OF_A_SHELL) as shell:
        reach(shell, phase)
        (command,) = psutil.Process(shell.pid).children()
        members = [command, *ranks(command)]
        os.killpg(command.pid, SIGTSTP)
        wait_until(lambda: all(member.status() == psutil.STATUS_STOPPED for member in members), 5)
        time.sleep(2)  # longer than the phase
        os.killpg(command.pid, SIGCONT)
        assert shell.wait(30) == 0, shell.out + shell.err
    assert len(read_metrics(tmp_path / "run", "epoch")) == 2
    assert saved_update(tmp_path) == read_metrics(tmp_path / "run", "epoch")[-1]["update"]
    assert (tmp_path / "run" / "model.safetensors").is_file()


@pytest.mark.parametrize("seconds", [6, pytest.param(14, marks=pytest.mark.chaos)])
@pytest.mark.parametrize(("launcher", "processes"), by_target(PLACES, quick=[], more=[("accel_train", 1)]))
def test_update_that_stalls_is_saved(launcher: str, processes: int, seconds: float, tmp_path: Path) -> None:
    """One process waits for nobody. Several have 8 s at least, and if that is too short, another exit code."""
    with phased(tmp_path, "update", processes=processes, launcher=launcher, seconds=seconds) as program:
        reach(program, "update")
        os.kill(program.pid, SIGTERM)
        code = program.wait(40)
    streams = program.out + program.err
    is_saved = processes == 1 or seconds < 8
    if launcher == "accel_train":
        assert code == (143 if is_saved else 1), streams
    if is_saved:
        assert f"after update {program.saved():,} (saved)" in program.out, streams
        assert_resumes(tmp_path)
    else:
        assert "ended by SIGTERM before it could save" in program.err


@pytest.mark.parametrize("processes", [2, slow(1)])
def test_second_ctrl_c_ends_all_at_once(processes: int, tmp_path: Path) -> None:
    with phased(tmp_path, "update", processes=processes, seconds=60) as program:
        reach(program, "update")
        os.kill(program.pid, SIGINT)
        time.sleep(1)
        assert all(lives(rank) for rank in program.ranks())
        os.kill(program.pid, SIGINT)
        assert program.wait(5) == 130, program.err
    assert "ended by a second SIGINT before it could save\n" in program.err
    assert "Traceback" not in program.err


@pytest.mark.parametrize(
    ("launcher", "processes"),
    by_target(PLACES, quick=[("accel_train", 2)], more=[("torchrun", 2)]),
)
def test_ctrl_c_right_after_an_epoch_is_saved(launcher: str, processes: int, tmp_path: Path) -> None:
    with phased(tmp_path, "none", launcher=launcher, processes=processes) as program:
        program.wait_for_epoch()
        os.killpg(program.pid, SIGINT)
        code = program.wait(20)
    assert code == 130 if launcher == "accel_train" else code != 0
    assert "before it could save" not in program.err
    assert program.saved() == saved_update(tmp_path)


@pytest.mark.chaos
def test_processes_wait_longer_for_a_save_than_for_an_answer(tmp_path: Path) -> None:
    """The second save of one process waits for its first, and the other process for both."""
    with phased(tmp_path, "save", "--save-every", "3updates", processes=2, seconds=14) as program:
        reach(program, "save")
        wait_until(lambda: "update 6/" in program.out or len(list((tmp_path / "run").iterdir())) > 5, 5)
        os.kill(program.pid, SIGTERM)
        assert program.wait(40) == 143, program.out + program.err
    assert program.saved() == saved_update(tmp_path)


@pytest.mark.chaos
@pytest.mark.parametrize(("launcher", "processes"), [("accel_train", 2), ("accel_train", 1)])
def test_launcher_waits_for_a_save_of_45_seconds(launcher: str, processes: int, tmp_path: Path) -> None:
    with phased(tmp_path, "save", processes=processes, launcher=launcher, seconds=45) as program:
        program.wait_for_epoch()
        os.kill(program.pid, SIGTERM)
        assert program.wait(80) == 143, program.out + program.err
    assert program.saved() == saved_update(tmp_path)


@pytest.mark.parametrize(("phase", "words", "code"), [("save", (), 143), ("last save", ("--epochs", "2"), 0)])
def test_loader_worker_that_is_killed_while_the_run_saves_is_ignored(
    phase: str, words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    with phased(tmp_path, phase, *words, "--workers", "2") as program:
        if not words:
            program.wait_for_epoch()
            os.kill(program.pid, SIGTERM)
        reach(program, phase)
        send_signal(SIGKILL, *loader_workers(program.ranks()[0]))
        assert program.wait(20) == code, program.out + program.err
    assert program.err == ""
    assert program.saved() == saved_update(tmp_path)


ENDINGS = ("SIGHUP", "SIGUSR2", "SIGXCPU", "terminal")
MORE_ENDINGS = [*map(chaos, ENDINGS[:2]), *map(slow, ENDINGS[2:])]


def ended(folder: Path, ending: str, command: str, *words: str | Path, processes: int = 1, marker: str) -> Program:
    """Start a command, end it once a file exists that matches `marker`, and check exit code and processes."""
    number = SIGHUP if ending == "terminal" else Signals[ending]
    terminal = Terminal()
    streams = terminal.streams if ending == "terminal" else {}
    where = environment("validation", 4)
    with started(folder, *words, command=command, processes=processes, streams=streams, **where) as program:
        wait_until(lambda: list(folder.glob(marker)) != [] or not program.process.is_alive(), 60)
        tree = program.tree()
        terminal.close()
        if ending != "terminal":
            os.kill(program.pid, number)
        program.process.join(20 * SLOWER)
        assert program.process.exitcode == 128 + number, program.out + program.err
        for process in tree:
            wait_for_end(process, 10)
    assert "Traceback" not in program.err
    return program


@pytest.mark.parametrize(
    ("ending", "processes"),
    by_target(itertools.product(ENDINGS, (1, 2)), quick=[("terminal", 2)], more=[("SIGUSR2", 1), ("SIGHUP", 2)]),
)
def test_evaluation_that_is_ended_leaves_no_process(run: Runner, ending: str, processes: int, tmp_path: Path) -> None:
    quick = environment("none")
    assert run("train", *TINY, *MODEL, "--epochs", "1", "--output", "run", **quick).code == 0
    words = ("run", *MODEL, "--device", "cpu")
    program = ended(tmp_path, ending, "evaluate", *words, processes=processes, marker="validation_*")
    assert ending == "terminal" or program.err == f"ended by {ending}, with nothing to save\n"


@pytest.mark.parametrize("ending", MORE_ENDINGS)
def test_pack_that_is_ended_is_resumed(run: Runner, ending: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / "src" / name).mkdir(parents=True)
        Image.effect_noise((500, 375), 40).convert("RGB").save(tmp_path / "src" / name / "0.jpg")
        for number in range(1, 640):
            os.link(tmp_path / "src" / name / "0.jpg", tmp_path / "src" / name / f"{number}.jpg")
    program = ended(tmp_path, ending, "pack", "src", "dst", "--workers", "1", marker="dst/*-00001.safetensors")
    assert ending == "terminal" or f"stopped by {ending}: " in program.out
    again = run("pack", "src", "dst")
    assert again.code == 0, again.err
    assert "packed earlier and verified by sha256" in again.out


@pytest.mark.parametrize("ending", MORE_ENDINGS)
def test_bench_that_is_ended_leaves_no_process(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = ("--batch-sizes", "8", "--updates", "100", "--data", "synthetic:800,1,8,8,2", *MODEL)
    ended(tmp_path, ending, "bench", *words, marker="validation_0")
