"""Rows of metrics.jsonl, read while it is written."""

import json
from contextlib import closing
from pathlib import Path

from accel_train.trackers.base import Row
from accel_train.trackers.metrics_tail import MetricsTail

TIME = "2026-11-29T12:00:00.500+00:00"
SECONDS = 1795953600.5


def record(kind: str, **values: object) -> bytes:
    return json.dumps({"kind": kind, "time": TIME, **values}).encode() + b"\n"


def read(path: Path) -> list[Row]:
    with closing(MetricsTail(path)) as tail:
        return list(tail.read())


def test_complete_lines_are_read_once(tmp_path: Path) -> None:
    path, line = tmp_path / "metrics.jsonl", record("progress", epoch=1, update=20, lr=0.1)
    path.write_bytes(line + line[:10])
    row = Row("progress", 20, SECONDS, {"epoch": 1, "lr": 0.1})
    with closing(MetricsTail(path)) as tail:
        assert list(tail.read()) == [row]
        assert list(tail.read()) == []
        with path.open("ab") as file:
            file.write(line[10:])
        assert list(tail.read()) == [row]


def test_numbers_of_tracked_records_are_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        record("run", lr=1.0, update=1)
        + record("epoch", update=8, epoch=1, val_loss=0.5, ema_val_loss=None, best=True)
        + record("epoch_by_rank", update=8, epoch=1)
        + record("end", updates=8, best_epoch=1, reason="all epochs done")
    )
    rows = read(path)
    assert [(row.kind, row.update) for row in rows] == [("epoch", 8), ("end", 8)]
    assert rows[0].by_key == {"epoch/epoch": 1, "epoch/val_loss": 0.5}
    assert rows[1].by_key == {"end/best_epoch": 1}


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    damaged = (b"\xff\n", b"[1]\n", b"7\n", b'{"kind": ["progress"]}\n', b'{"kind": "progress", "update": 3}\n')
    path.write_bytes(b"".join(damaged) + record("progress", update=4, lr=1.0))
    assert [row.update for row in read(path)] == [4]


def test_replaced_file_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(record("progress", update=4, lr=1.0))
    with closing(MetricsTail(path)) as tail:
        (tmp_path / "other").write_bytes(record("progress", update=8, lr=1.0) * 2)
        (tmp_path / "other").rename(path)
        assert [row.update for row in tail.read()] == [4]
