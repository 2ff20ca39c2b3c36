"""A file or checkpoint is complete or absent, whichever file operation or byte its writer is killed at."""

import itertools
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.checkpoints import save
from helpers.file_faults import die_at_byte, die_at_operation, fail_at_byte, fork, names
from helpers.marks import slow

from accel_train.checkpoints.store import FOLDERS, begin, commit, newest_valid, problem, prune, update_of
from accel_train.system.atomic_files import clean, write_file


def resume_run(checkpoints: Path, acknowledge: Callable[[int], None]) -> None:
    """Clean up, save and prune checkpoints as a resumed run does."""
    clean(checkpoints, FOLDERS)
    for update in (300, 400):
        save(checkpoints, update)
        acknowledge(update)
        prune(checkpoints, 2, {100})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the checkpoint folder of a run that has saved updates 100 and 200."""
    for update in (100, 200):
        save(tmp_path / "saved", update)
    return tmp_path / "saved"


@pytest.mark.parametrize("existing", [slow("none"), slow("valid"), "damaged"])
def test_kill_at_any_operation_loses_no_acknowledged_checkpoint(saved: Path, tmp_path: Path, existing: str) -> None:
    """`existing` is the state of the checkpoint of update 300 beforehand."""
    if existing != "none":
        save(saved, 300)
    if existing == "damaged":
        (saved / "update_000300/state.json").write_bytes(b"")
    lowest = 300 if existing == "valid" else 200
    for number in itertools.count(1):
        ended = killed(saved, tmp_path / "run", lambda number=number: die_at_operation(number), lowest)
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert number > 60


def test_kill_at_any_byte_loses_no_acknowledged_checkpoint(saved: Path, tmp_path: Path) -> None:
    largest = (saved / "update_000200/MANIFEST.json").stat().st_size
    for byte in range(0, largest, 9):
        ended = killed(saved, tmp_path / "run", lambda number=byte: die_at_byte(number), 200)
        assert ended == -signal.SIGXFSZ
    assert killed(saved, tmp_path / "run", lambda: die_at_byte(largest), 200) == 0


def killed(saved: Path, checkpoints: Path, plan_death: Callable[[], None], lowest: int) -> int:
    """Kill a run, check what it leaves and that it can be resumed; return its exit code."""
    shutil.rmtree(checkpoints, ignore_errors=True)
    shutil.copytree(saved, checkpoints)
    damaged = newest_valid(checkpoints)[1]
    acknowledged = checkpoints.with_name("acknowledged")

    def die() -> None:
        with acknowledged.open("w") as report:
            plan_death()
            resume_run(checkpoints, lambda update: print(update, file=report, flush=True))

    ended = fork(die)
    newest, problems = newest_valid(checkpoints)
    assert newest
    assert update_of(newest) >= max([lowest, *map(int, acknowledged.read_text().split())])
    assert problems in ([], damaged)
    assert problem(checkpoints / "update_000100") is None
    resume_run(checkpoints, lambda _: None)
    assert names(checkpoints) == ["update_000100", "update_000300", "update_000400"]
    assert not any(map(problem, checkpoints.iterdir()))
    return ended


@pytest.mark.parametrize("byte", [0, 50, 100])
def test_full_disk_leaves_older_checkpoints_and_nothing_unfinished(saved: Path, byte: int) -> None:
    def commit_without_space() -> None:
        partial = begin(saved, 300, "ab")
        (partial / "empty").touch()
        fail_at_byte(byte)
        with pytest.raises(OSError, match="File too large"):
            commit(partial)

    assert fork(commit_without_space) == 0
    assert names(saved) == ["update_000100", "update_000200"]
    assert newest_valid(saved) == (saved / "update_000200", [])


@pytest.mark.parametrize("byte", [0, 50, 150])
def test_full_disk_leaves_the_old_content(tmp_path: Path, byte: int) -> None:
    def write_without_space() -> None:
        fail_at_byte(byte)
        with pytest.raises(OSError, match="File too large"):
            write_file(tmp_path / "a.json", bytes(200))

    write_file(tmp_path / "a.json", b"old")
    assert fork(write_without_space) == 0
    assert names(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_kill_at_any_operation_or_byte_leaves_old_or_new_content(tmp_path: Path) -> None:
    path, old, new = tmp_path / "a.json", b"old", b"n" * 20
    deaths = [lambda number=n: die_at_operation(number) for n in range(1, 8)]
    deaths += [lambda number=n: die_at_byte(number) for n in range(20)]
    found = set()
    for die in deaths:
        write_file(path, old)
        assert fork(lambda plan_death=die: (plan_death(), write_file(path, new))) in (-signal.SIGKILL, -signal.SIGXFSZ)
        found.add(path.read_bytes())
        clean(tmp_path, r"a\.json")
        assert names(tmp_path) == ["a.json"]
    assert found == {old, new}
    assert fork(lambda: (die_at_operation(len(deaths)), write_file(path, new))) == 0
