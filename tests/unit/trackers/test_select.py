"""By what name services know a run."""

from pathlib import Path

from accel_train.trackers.select import _identity


def test_resumed_run_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    new = _identity(tmp_path)
    assert len(new) == 16
    assert (tmp_path / "tracked_as").read_text() == f"{new}\n"
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    assert _identity(tmp_path) == new


def test_run_from_scratch_gets_another_name(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").touch()
    assert _identity(tmp_path) != _identity(tmp_path)


def test_damaged_name_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    for damaged in (b"", b"../x\n", b"\xff\xfe", b"a' or 'b\n"):
        (tmp_path / "tracked_as").write_bytes(damaged)
        assert _identity(tmp_path).isalnum()
        assert (tmp_path / "tracked_as").read_bytes() != damaged
