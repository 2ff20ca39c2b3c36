"""metrics.csv: one row a record."""

from pathlib import Path

from accel_train.trackers.base import Row, TrackedRun
from accel_train.trackers.csv import COLUMNS, Csv


def test_file_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("earlier\n" * 100)
    tracker = Csv()
    assert tracker.open(TrackedRun(tmp_path, "abc", None, {})) == {}
    tracker.log(Row("progress", 20, 0.0, {"epoch": 1, "lr": 0.1 + 0.2}))
    tracker.log(Row("end", 40, 0.0, {"epochs": 2, "best_epoch": 1}))
    tracker.close(complete=True)
    header, *rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert header == ",".join(COLUMNS)
    assert rows[0] == "progress,1,20,0.30000000000000004" + "," * (len(COLUMNS) - 4)
    assert dict(zip(COLUMNS, rows[1].split(","), strict=True))["best_epoch"] == "1"


def test_columns_are_the_numbers_of_all_records() -> None:
    assert COLUMNS[:6] == ("kind", "epoch", "update", "lr", "local_loss", "gradient_norm")
    assert {"val_accuracy", "ema_val_loss", "seconds", "best_val_accuracy"} <= set(COLUMNS)
    assert not {"best", "reason", "local_ids_hash"} & set(COLUMNS)
