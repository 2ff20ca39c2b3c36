"""A save is due after its interval and after the last epoch; a finished run keeps its last checkpoint."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.checkpoints import FILES, save

from accel_train.checkpoints import store
from accel_train.config.durations import parse_interval
from accel_train.events import Notice
from accel_train.run.saving import Saver, SaveSchedule
from accel_train.training.state import TrainingState

UPDATES_PER_EPOCH = 4


def saves(interval: str, epochs: int, *, time_is_up: tuple[int, ...] = ()) -> list[tuple[int, int]]:
    """Return update and validated epochs at each save of a run; `time_is_up` after these updates."""
    schedule, state, found = SaveSchedule(parse_interval(interval), UPDATES_PER_EPOCH), TrainingState(), []

    def save_if_due() -> None:
        if schedule.is_due(state):
            found.append((state.update, state.epochs))
            schedule.saved()

    for epoch in range(1, epochs + 1):
        for _ in range(UPDATES_PER_EPOCH):
            state.update += 1
            schedule.after_update(state.update, state.update in time_is_up)
            save_if_due()
        state.epochs = epoch
        schedule.after_epoch(epoch, is_last=epoch == epochs)
        save_if_due()
    return found


@pytest.mark.parametrize(
    ("interval", "epochs", "expected"),
    [
        ("1epoch", 3, [(4, 1), (8, 2), (12, 3)]),
        ("2epochs", 5, [(8, 2), (16, 4), (20, 5)]),  # and after the last epoch
        ("9epochs", 2, [(8, 2)]),
        ("1update", 2, [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 1), (7, 1), (8, 2)]),
        ("3updates", 3, [(3, 0), (6, 1), (9, 2), (12, 3)]),
        ("4updates", 2, [(4, 1), (8, 2)]),  # after the validation, not before it
        ("1h", 2, [(8, 2)]),
    ],
)
def test_saves_after_interval_and_last_epoch(interval: str, epochs: int, expected: list[tuple[int, int]]) -> None:
    assert saves(interval, epochs) == expected


def test_saves_when_time_is_up() -> None:
    assert saves("10min", 3, time_is_up=(2, 7)) == [(2, 0), (7, 1), (12, 3)]
    assert saves("10min", 3, time_is_up=(4, 9)) == [(4, 1), (9, 2), (12, 3)]  # update 4 ends an epoch


def test_save_stays_due_until_it_is_made() -> None:
    schedule, state = SaveSchedule(parse_interval("2updates"), UPDATES_PER_EPOCH), TrainingState()
    for update in (1, 2, 3):
        state.update = update
        schedule.after_update(update, time_is_up=False)
    assert schedule.is_due(state)  # as after a rollback in place of the save
    schedule.saved()
    assert not schedule.is_due(state)


@pytest.mark.parametrize(("interval", "seconds"), [("10min", 600), ("90s", 90), ("2updates", None), ("1epoch", None)])
def test_only_an_interval_of_time_has_seconds(interval: str, seconds: float | None) -> None:
    assert SaveSchedule(parse_interval(interval), UPDATES_PER_EPOCH).seconds == seconds


def pruned(folder: Path, keep: int | None, last: int = 300) -> list[Notice]:
    """Return the notices of a run that has finished with update `last`."""
    saver = Saver.__new__(Saver)
    run: Any = SimpleNamespace(config=SimpleNamespace(keep=keep))
    processes: Any = SimpleNamespace(on_main=lambda function: function())
    saver._run, saver._processes, saver._folder = run, processes, folder
    return list(saver.prune_finished(last))


def checkpoints(folder: Path, *updates: int) -> list[str]:
    for update in updates:
        save(folder / "checkpoints", update)
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_finished_run_keeps_its_last_checkpoint(tmp_path: Path) -> None:
    checkpoints(tmp_path, 100, 200, 300)
    kib = 2 * sum(map(len, FILES.values())) / 2**10
    assert pruned(tmp_path, keep=None) == [
        Notice(f"removed 2 checkpoints ({kib:.1f} KiB): the run is complete; its weights and the last checkpoint stay")
    ]
    assert checkpoints(tmp_path) == ["update_000300"]
    assert pruned(tmp_path, keep=None) == []  # as when it is started again


def test_keep_is_obeyed_by_a_finished_run(tmp_path: Path) -> None:
    checkpoints(tmp_path, 100, 200, 300)
    assert pruned(tmp_path, keep=2) == []
    assert len(checkpoints(tmp_path)) == 3


def test_checkpoint_from_which_a_run_has_finished_is_kept(tmp_path: Path) -> None:
    """A newer one may be damaged."""
    checkpoints(tmp_path, 100, 200, 300)
    (notice,) = pruned(tmp_path, keep=None, last=200)
    assert "removed 1 checkpoint (" in notice.text
    assert checkpoints(tmp_path) == ["update_000200", "update_000300"]


def test_checkpoint_that_cannot_be_removed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "checkpoints/update_000100")

    monkeypatch.setattr(store, "prune", refuse)
    assert pruned(tmp_path, keep=None) == [
        Notice("cannot remove older checkpoints of the finished run: Permission denied: checkpoints/update_000100")
    ]
