"""Trackers of runs that are killed or stopped, and trackers that are killed."""

import os
import signal
import sqlite3
from pathlib import Path

import psutil
from helpers import tracker_stores as stores
from helpers.faults import ENDLESS, Program, started
from helpers.processes import wait_until
from helpers.tracker_stores import Points, expected

WORDS = ("--save-every", "256updates", "--log-every", "8", "--output", "run")


def last(points: Points) -> int:
    return max((update for _, update, _ in points), default=0)


def in_csv(folder: Path) -> Points:
    return stores.in_csv(folder) if (folder / "metrics.csv").exists() else []


def tracker_processes(program: Program) -> list[psutil.Process]:
    """Return the children of rank 0, which has no loader workers."""
    return program.ranks()[0].children()


def in_trackio(store: Path) -> Points:
    """Return the values of the only run."""
    try:
        ((_, points),) = stores.in_trackio(store, "accel_train").items()
    except (sqlite3.OperationalError, ValueError):  # there is none yet
        return []
    return points


def test_killed_run_leaves_no_gap_and_no_repeat(tmp_path: Path) -> None:
    words = (*ENDLESS, *WORDS, "--tracker", "csv", "--tracker", "tensorboard", "--tracker", "trackio")
    folder, store = tmp_path / "run", tmp_path / "trackio"
    with started(tmp_path, *words, processes=2, TRACKIO_DIR=str(store)) as program:
        program.wait_for(lambda: min(last(in_trackio(store)), last(in_csv(folder))) > program.saved() > 0)
        trackers = tracker_processes(program)
        assert len(trackers) == 3
        program.ranks()[0].kill()
        wait_until(lambda: not any(tracker.is_running() for tracker in trackers), 60)
        program.wait()
        held = last(in_trackio(store))
    with started(tmp_path, *words, TRACKIO_DIR=str(store)) as program:
        program.wait_for(lambda: min(last(in_trackio(store)), last(in_csv(folder))) > held + 64)
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
        assert "has failed" not in program.err
        assert program.resumed() > 0
    after = expected(folder)
    assert [update for key, update, _ in after if key == "progress/lr"] == list(range(8, last(after) + 1, 8))
    assert stores.in_csv(folder) == after
    places = [(key, update) for key, update, _ in after]
    assert [(key, update) for key, update, _ in stores.in_tensorboard(folder)] == places
    assert [(key, update) for key, update, _ in in_trackio(store)] == places


def test_tracker_that_is_killed_costs_one_warning(tmp_path: Path) -> None:
    with started(tmp_path, *ENDLESS, *WORDS, "--tracker", "csv", "--tracker", "tensorboard") as program:
        program.wait_for(lambda: last(in_csv(tmp_path / "run")) > 0 and len(tracker_processes(program)) == 2)
        tracker_processes(program)[1].kill()
        program.wait_for(lambda: "has failed" in program.err)
        update = last(in_csv(tmp_path / "run"))
        program.wait_for(lambda: last(in_csv(tmp_path / "run")) > update)
        os.kill(program.pid, signal.SIGTERM)
        assert program.wait() == 128 + signal.SIGTERM
    (warning,) = program.err.splitlines()
    assert warning.startswith("warning: --tracker tensorboard has failed, the run continues: ")
    assert "its process has ended with code -9" in warning
    assert stores.in_csv(tmp_path / "run") == expected(tmp_path / "run")
