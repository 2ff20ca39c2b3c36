"""A run that is killed at any moment, any number of times, ends like an uninterrupted one."""

import random
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from helpers.faults import ON_CPU, Program, assert_same_run, finished, started
from helpers.marks import chaos
from helpers.processes import lives, wait_until

TRAINING = ("--data", "digits", "--model", "cnn", "--epochs", "4", "--save-every", "10updates", *ON_CPU)
WORDS = {1: TRAINING, 2: (*TRAINING, "--processes", "2", "--batch-size", "16", "--global-batch-size", "32")}
"""By number of processes."""
SEEDS = [(1, 4, 0), (1, 4, 1), (1, 3, 2), (1, 3, 3), (2, 6, 4)]
MORE_SEEDS = [*((1, 7, seed) for seed in range(5, 23)), *((2, 6, seed) for seed in range(23, 32))]
"""Processes, kills and seed: 20 kills, and 180 more."""
LONGEST_SECONDS = 2.0
"""Longest time until a kill at a random time."""


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Return a function that returns the folder of an uninterrupted run on N processes."""

    @cache
    def folder(processes: int) -> Path:
        parent = tmp_path_factory.mktemp("baseline")
        finished(parent, "--output", parent / "run", *WORDS[processes])
        return parent / "run"

    return folder


def kill_after_file_events(program: Program, output: Path, chance: random.Random) -> None:
    """Kill shortly after a random number of checkpoints were begun, committed or removed."""
    names = _names(output)
    for _ in range(chance.randint(1, 6)):
        wait_until(lambda names=names: _names(output) != names or not program.process.is_alive(), 60, pause=0.001)
        names = _names(output)
    time.sleep(chance.choice([0, chance.uniform(0, 0.003), chance.uniform(0, 0.03)]))
    program.kill()


def _names(output: Path) -> set[str]:
    checkpoints = output / "checkpoints"
    return {path.name for path in checkpoints.iterdir()} if checkpoints.is_dir() else set()


@pytest.mark.parametrize(("processes", "kills", "seed"), [*SEEDS, *(chaos(*case) for case in MORE_SEEDS)])
def test_killed_run_ends_like_an_uninterrupted_one(
    processes: int, kills: int, seed: int, baseline: Callable[[int], Path], tmp_path: Path
) -> None:
    output = tmp_path / "run"
    words = ("--output", output, *WORDS[processes])
    chance = random.Random(seed)
    saved = 0
    for kill in range(kills):
        with started(tmp_path, *words) as program:
            if kill % 3 == 1:
                time.sleep(chance.uniform(0, LONGEST_SECONDS))
                tree = program.tree()
                program.kill()
            else:
                wait_until(lambda program=program: len(program.tree()) >= processes, 30)
                tree = program.tree()
                kill_after_file_events(program, output, chance)
            wait_until(lambda tree=tree: not any(map(lives, tree)), 5)
        if "\nresumed at epoch" in program.out or program.saved():
            assert program.resumed() >= saved
        saved = max(saved, program.saved())
    last = finished(tmp_path, *words)
    assert last.resumed() >= saved, last.out
    assert_same_run(output, baseline(processes))
