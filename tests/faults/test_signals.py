"""A signal ends a run soon, saved, under every launcher, and the run goes on from there."""

import itertools
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from signal import SIGINT, Signals

import psutil
import pytest
from helpers.faults import ENDLESS, LAUNCHERS, Program, loader_workers, started

import accel_train
from accel_train.checkpoints.store import newest_valid, update_of

IN_CI = {
    ("accel_train", 1, 2, "SIGTERM"),
    ("accel_train", 2, 0, "SIGUSR1"),
    ("accel_train", 2, 2, "SIGINT"),
    ("accelerate", 1, 0, "SIGTERM"),
    ("accelerate", 1, 2, "SIGINT"),
    ("accelerate", 2, 2, "SIGUSR1"),
    ("torchrun", 1, 0, "SIGINT"),
    ("torchrun", 1, 2, "SIGUSR1"),
    ("torchrun", 2, 2, "SIGTERM"),
}
"""Each value of one with each of another."""
SIGNALS = ("SIGTERM", "SIGUSR1", "SIGINT")
SOURCE = str(Path(accel_train.__file__).parent)


def assert_a_signal_saves_and_ends(
    folder: Path,
    send: Callable[[Program], None],
    code: int | None = None,
    *,
    launcher: str,
    processes: int,
    workers: int,
) -> None:
    """Check that a run ends within 10 s of a signal, with this code or some failure's, and goes on where it was."""
    output = folder / "run"
    words = ("--output", output, *ENDLESS)
    with started(folder, *words, "--workers", str(workers), launcher=launcher, processes=processes) as program:
        program.wait_for_epoch()
        ranks = program.ranks()
        assert len(ranks) == processes
        assert all(len(loader_workers(rank)) == 2 * workers for rank in ranks)  # training's and validation's
        send(program)
        ended_with = program.wait(10)
    streams = program.out + program.err
    assert ended_with == code if code else ended_with != 0, streams
    assert f"after update {program.saved()} (saved)" in program.out, streams
    assert SOURCE not in streams  # nor in a traceback of the launcher's
    assert launcher != "accel_train" or "Traceback" not in streams, streams
    checkpoint, problems = newest_valid(output / "checkpoints")
    assert checkpoint
    assert (update_of(checkpoint), problems) == (program.saved(), [])
    with started(folder, *words) as program:  # always on one process: that is quick
        program.wait_for(lambda: program.resumed() == update_of(checkpoint))


def chaos_unless(in_ci: Collection[tuple[object, ...]], cases: Iterable[tuple[object, ...]]) -> list[object]:
    """Return parameters, those of the long test alone marked so."""
    return [pytest.param(*case, marks=[pytest.mark.chaos] * (case not in in_ci)) for case in cases]


@pytest.mark.parametrize(
    ("launcher", "processes", "workers", "name"),
    chaos_unless(IN_CI, itertools.product(LAUNCHERS, (1, 2), (0, 2), SIGNALS)),
)
def test_a_signal_saves_and_ends_a_run_that_then_goes_on(
    launcher: str, processes: int, workers: int, name: str, tmp_path: Path
) -> None:
    """Ctrl-C, too, leaves no rank alive and a last checkpoint that loads."""
    number = Signals[name]

    def send(program: Program) -> None:
        # Other launchers do not hand SIGUSR1 on.
        to_ranks = name == "SIGUSR1" and launcher != "accel_train"
        for process in program.ranks() if to_ranks else [psutil.Process(program.pid)]:
            process.send_signal(number)

    code = 128 + number if launcher == "accel_train" else None
    assert_a_signal_saves_and_ends(tmp_path, send, code, launcher=launcher, processes=processes, workers=workers)


@pytest.mark.parametrize(
    ("launcher", "processes"), chaos_unless([("accelerate", 1)], itertools.product(LAUNCHERS, (1, 2)))
)
def test_ctrl_c_in_a_terminal_saves_and_ends_a_run(launcher: str, processes: int, tmp_path: Path) -> None:
    assert_a_signal_saves_and_ends(
        tmp_path,
        lambda program: os.killpg(program.pid, SIGINT),  # a terminal sends it to all in the foreground
        launcher=launcher,
        processes=processes,
        workers=2,
    )


@pytest.mark.parametrize(
    ("launcher", "name"), chaos_unless([("accel_train", "SIGTERM")], itertools.product(LAUNCHERS, SIGNALS[:2]))
)
def test_a_signal_to_every_process_but_the_launcher_saves_and_ends_a_run(
    launcher: str, name: str, tmp_path: Path
) -> None:
    """As a scheduler sends it, to loader workers too."""

    def send(program: Program) -> None:
        for process in program.tree()[1:]:
            process.send_signal(Signals[name])

    assert_a_signal_saves_and_ends(tmp_path, send, launcher=launcher, processes=2, workers=2)
