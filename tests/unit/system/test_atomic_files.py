"""Files are synced before they are renamed, and unfinished ones are removed."""

from pathlib import Path

import pytest
from helpers.file_faults import names, recorded_operations

from accel_train.system.atomic_files import clean, write_file


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
