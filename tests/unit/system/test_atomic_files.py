"""A file has its old content or its new, whenever its writer is killed."""

import signal
from pathlib import Path

import pytest
from helpers.file_faults import die_at_byte, die_at_operation, fail_at_byte, fork, names, recorded_operations

from accel_train.system.atomic_files import clean, write_file


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
    deaths = [lambda number=n: die_at_operation(number) for n in range(1, 7)]
    deaths += [lambda number=n: die_at_byte(number) for n in range(20)]
    found = set()
    for die in deaths:
        write_file(path, old)
        assert fork(lambda plan_death=die: (plan_death(), write_file(path, new))) in (-signal.SIGKILL, -signal.SIGXFSZ)
        found.add(path.read_bytes())
        clean(tmp_path)
        assert names(tmp_path) == ["a.json"]
    assert found == {old, new}
    assert fork(lambda: (die_at_operation(len(deaths)), write_file(path, new))) == 0


def test_file_is_synced_before_its_rename_and_its_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = recorded_operations(monkeypatch)
    write_file(tmp_path / "a.json", b"{}")
    assert operations == [".tmp_a.json", ".tmp_a.json -> a.json", tmp_path.name]


def test_clean_removes_only_unfinished_files_and_folders(tmp_path: Path) -> None:
    for folder in ("update_000100", ".tmp_update_000300_ab"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "state.json").touch()
    (tmp_path / ".tmp_file").touch()
    clean(tmp_path)
    assert names(tmp_path) == ["update_000100"]
    assert names(tmp_path / "update_000100") == ["state.json"]
    clean(tmp_path / "nothing")
