"""What a tracker is sent: each value once."""

import json
from collections.abc import Mapping
from pathlib import Path

from accel_train.trackers.base import Row, TrackedRun
from accel_train.trackers.follow import End, follow

TIME = "2026-11-29T12:00:00+00:00"


class Recorder:
    """A tracker that notes what it is given."""

    def __init__(self, held: Mapping[str, int]) -> None:
        self.held, self.sent = held, list[tuple[str, int, Mapping[str, float]]]()
        self.pictures: list[tuple[str, int]] = []
        self.complete: bool | None = None

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        return self.held

    def log(self, row: Row) -> None:
        self.sent.append((row.kind, row.update, row.values))

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        self.pictures += [(name, update) for name in pictures]

    def close(self, *, complete: bool) -> None:
        self.complete = complete


def followed(
    folder: Path, held: Mapping[str, int], *updates: int, ends: bool = True, complete: bool = True
) -> Recorder:
    """Follow a file that has one update, and gets the others and the end meanwhile."""
    records = [{"kind": "progress", "time": TIME, "update": update, "lr": 0.1, "local_loss": 2.0} for update in updates]
    records += [{"kind": "end", "time": TIME, "updates": updates[-1], "best_epoch": 1}] * ends
    path, recorder = folder / "metrics.jsonl", Recorder(held)
    path.write_text(json.dumps(records.pop(0)) + "\n")

    def wait() -> End | None:
        if not records:
            return End(complete, {"confusion_matrix": folder / "a.png"} if complete else {})
        with path.open("a") as file:
            file.write(json.dumps(records.pop(0)) + "\n")
        return None

    follow(recorder, TrackedRun(folder, "abc", None, {}), wait)
    return recorder


def test_all_rows_and_pictures_are_sent(tmp_path: Path) -> None:
    recorder = followed(tmp_path, {}, 20, 40)
    values = {"lr": 0.1, "local_loss": 2.0}
    assert recorder.sent == [("progress", 20, values), ("progress", 40, values), ("end", 40, {"best_epoch": 1})]
    assert recorder.pictures == [("confusion_matrix", 40)]
    assert recorder.complete is True


def test_values_that_the_store_holds_are_left_out(tmp_path: Path) -> None:
    recorder = followed(tmp_path, {"progress/lr": 40, "progress/local_loss": 20}, 20, 40, 60)
    assert recorder.sent == [
        ("progress", 40, {"local_loss": 2.0}),
        ("progress", 60, {"lr": 0.1, "local_loss": 2.0}),
        ("end", 60, {"best_epoch": 1}),
    ]


def test_repeated_record_is_sent_once(tmp_path: Path) -> None:
    recorder = followed(tmp_path, {}, 20, 20, 40)
    assert [update for kind, update, _ in recorder.sent if kind == "progress"] == [20, 40]


def test_stopped_run_has_no_pictures(tmp_path: Path) -> None:
    recorder = followed(tmp_path, {}, 20, ends=False, complete=False)
    assert (recorder.pictures, recorder.complete) == ([], False)


def test_pictures_that_the_store_holds_are_not_sent_again(tmp_path: Path) -> None:
    assert followed(tmp_path, {"end/best_epoch": 40}, 20, 40).pictures == []
