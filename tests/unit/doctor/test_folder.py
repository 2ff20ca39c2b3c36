"""The file system of the run folder is examined without a trace."""

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest

from accel_train.distributed.exchange import Exchange
from accel_train.doctor.folder import examine_folder, place_of
from accel_train.doctor.steps import Steps


def examine(output: Path | None) -> tuple[str, list[str]]:
    steps = Steps(Exchange(None, 0, 1, 60), 60)
    place = examine_folder(output, ["host0"], steps)
    assert {one.check for one in steps.findings} <= {"run folder"}
    return place, [one.message for one in steps.findings]


def test_folder_above_a_new_run_folder_is_examined(tmp_path: Path) -> None:
    assert examine(tmp_path / "new" / "run") == (str(tmp_path), [])
    assert list(tmp_path.iterdir()) == []


def test_without_output_the_current_folder_is_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert examine(None) == (str(tmp_path), [])


def test_run_folder_that_is_mounted_is_examined_itself() -> None:
    assert place_of(Path("/proc")) == Path("/proc")


def test_foreign_files_in_the_run_folder_are_found(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    _, (message,) = examine(tmp_path)
    assert message == f"--output {tmp_path} is not empty: thesis.tex does not belong to a run"


def test_folder_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert examine(tmp_path / "run") == (str(tmp_path), [f"cannot write to {tmp_path}: Read-only file system"])


def test_folder_that_cannot_be_written_is_found_though_nothing_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=0))
    test_folder_that_cannot_be_written_is_found(tmp_path, monkeypatch)


def test_full_file_system_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**20))
    assert examine(tmp_path / "run")[1] == [f"{tmp_path} has 1.0 MiB free: a few checkpoints fill it"]
