"""A signal makes a run save and end within seconds under every launcher, and the run resumes from there."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from signal import SIGINT, Signals

import psutil
import pytest
from helpers.faults import ENDLESS, Program, loader_workers, started
from helpers.marks import by_target
from helpers.processes import send_signal
from helpers.runner import LAUNCHERS

import accel_train
from accel_train.checkpoints.store import newest_valid, update_of

QUICK = [
    ("accel_train", 1, 2, "SIGTERM"),
    ("accel_train", 2, 0, "SIGUSR1"),
    ("accel_train", 2, 2, "SIGINT"),
    ("torchrun", 2, 2, "SIGTERM"),
]
MORE = [
    ("accelerate", 1, 0, "SIGTERM"),
    ("accelerate", 1, 2, "SIGINT"),
    ("accelerate", 2, 2, "SIGUSR1"),
    ("torchrun", 1, 0, "SIGINT"),
    ("torchrun", 1, 2, "SIGUSR1"),
]
"""Together, these have every pair of values."""
STARTED = [("torchrun", 2, 2, "SIGTERM"), ("accelerate", 2, 2, "SIGUSR1")]
"""Those that are really started; the others are forked."""
SIGNALS = ("SIGTERM", "SIGUSR1", "SIGINT")
SOURCE = str(Path(accel_train.__file__).parent)


def assert_signal_saves_and_ends(
    folder: Path,
    send: Callable[[Program], None],
    code: int | None = None,
    *,
    launcher: str,
    processes: int,
    workers: int,
    forked: bool = True,
) -> None:
    """Check that a run ends within 10 s of a signal, with `code` or any failure's, and resumes where it ended."""
    output = folder / "run"
    words = ("--output", output, *ENDLESS)
    where = {"launcher": launcher, "processes": processes, "forked": forked}
    with started(folder, *words, "--workers", str(workers), **where) as program:  # type: ignore[arg-type]
        program.wait_for_epoch()
        ranks = program.ranks()
        assert len(ranks) == processes
        assert all(len(loader_workers(rank)) == 2 * workers for rank in ranks)  # for training and for validation
        send(program)
        ended_with = program.wait(10)
    streams = program.out + program.err
    assert ended_with == code if code else ended_with != 0, streams
    assert f"after update {program.saved():,} (saved)" in program.out, streams
    assert SOURCE not in streams  # not even in a traceback of the launcher
    assert launcher != "accel_train" or "Traceback" not in streams, streams
    checkpoint, problems = newest_valid(output / "checkpoints")
    assert checkpoint
    assert (update_of(checkpoint), problems) == (program.saved(), [])
    with started(folder, *words) as program:  # always on one process, which is quick
        program.wait_for(lambda: program.resumed() == update_of(checkpoint))


@pytest.mark.parametrize(
    ("launcher", "processes", "workers", "name"),
    by_target(itertools.product(LAUNCHERS, (1, 2), (0, 2), SIGNALS), quick=QUICK, more=MORE),
)
def test_signal_saves_and_ends_a_run_that_resumes(
    launcher: str, processes: int, workers: int, name: str, tmp_path: Path
) -> None:
    """No rank survives, and the last checkpoint loads."""
    number = Signals[name]

    def send(program: Program) -> None:
        # Other launchers do not forward SIGUSR1.
        to_ranks = name == "SIGUSR1" and launcher != "accel_train"
        send_signal(number, *(program.ranks() if to_ranks else [psutil.Process(program.pid)]))

    code = 128 + number if launcher == "accel_train" else None
    place = {"launcher": launcher, "processes": processes, "workers": workers}
    forked = (launcher, processes, workers, name) not in STARTED
    assert_signal_saves_and_ends(tmp_path, send, code, **place, forked=forked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("launcher", "processes"), by_target(itertools.product(LAUNCHERS, (1, 2)), quick=[("accelerate", 1)])
)
def test_ctrl_c_in_a_terminal_saves_and_ends_a_run(launcher: str, processes: int, tmp_path: Path) -> None:
    assert_signal_saves_and_ends(
        tmp_path,
        lambda program: os.killpg(program.pid, SIGINT),  # a terminal sends it to its foreground group
        launcher=launcher,
        processes=processes,
        workers=2,
    )


@pytest.mark.parametrize(
    ("launcher", "name"), by_target(itertools.product(LAUNCHERS, SIGNALS[:2]), quick=[("accel_train", "SIGTERM")])
)
def test_signal_to_every_process_but_the_launcher_saves_and_ends_a_run(
    launcher: str, name: str, tmp_path: Path
) -> None:
    """A scheduler sends it, also to loader workers."""

    def send(program: Program) -> None:
        send_signal(Signals[name], *program.tree()[1:])

    assert_signal_saves_and_ends(tmp_path, send, launcher=launcher, processes=2, workers=2)
