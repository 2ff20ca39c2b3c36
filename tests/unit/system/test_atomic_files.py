"""Files are synced before they are renamed, and unfinished ones are removed."""

import fcntl
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.file_faults import die_at_operation, fork, names, recorded_operations
from helpers.privileges import no_privileges

from accel_train.errors import UserError
from accel_train.system.atomic_files import clean, is_partial, refuse_unwritable, remove, write_file


def test_file_is_synced_before_its_rename_and_its_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = recorded_operations(monkeypatch)
    write_file(tmp_path / "a.json", b"{}")
    partial = operations[0]
    assert is_partial(partial, r"a\.json")
    assert operations == [partial, f"{partial} -> a.json", tmp_path.name]


def test_two_writers_of_a_file_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second writes all of it between the first one's last byte and its rename."""
    path, fsync = tmp_path / "a.json", os.fsync
    seen: list[list[str]] = []

    def second(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        write_file(path, b"second")
        clean(tmp_path, r"a\.json")
        seen.append(names(tmp_path))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", second)
    write_file(path, b"first")
    ((partial, name),) = seen
    assert (is_partial(partial, r"a\.json"), name) == (True, "a.json")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a.json"]


def test_file_of_a_killed_writer_is_removed(tmp_path: Path) -> None:
    for ended in range(1, 20):
        code = fork(lambda: (die_at_operation(ended), write_file(tmp_path / "a.json", b"{}")))  # noqa: B023
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert 4 < ended < 19
    assert names(tmp_path) == ["a.json"]


def test_writer_whose_file_was_taken_for_that_of_a_killed_one_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock, taken = fcntl.flock, []

    def clean_first(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        taken.extend(names(tmp_path))
        clean(tmp_path, r"a\.json")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", clean_first)
    write_file(tmp_path / "a.json", b"{}")
    assert len(taken) == 1
    assert names(tmp_path) == ["a.json"]


def test_clean_removes_only_unfinished_files_and_folders(tmp_path: Path) -> None:
    for folder in ("update_000100", ".tmp_update_000300_ab"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "state.json").touch()
    for name in (".tmp_a.json", ".tmp_0123abcd_a.json"):
        (tmp_path / name).touch()
    clean(tmp_path, r"a\.json|update_\d+_\w+")
    assert names(tmp_path) == ["update_000100"]
    assert names(tmp_path / "update_000100") == ["state.json"]
    clean(tmp_path / "nothing", "")


def test_clean_leaves_what_only_looks_unfinished(tmp_path: Path) -> None:
    (tmp_path / ".tmp_mine").mkdir()
    for name in (".tmp_a.json.bak", ".tmp_b_a.json", ".tmp_0123abcd_a.json.bak", "a.json"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    clean(tmp_path, r"a\.json")
    assert names(tmp_path) == before


def test_clean_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run/.tmp_a.json").symlink_to(tmp_path / "precious")
    clean(tmp_path / "run", r"a\.json")
    assert names(tmp_path / "run") == []
    assert names(tmp_path / "precious") == ["file"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "--csv {} is a folder"),
        ("fifo", "--csv {} is no regular file"),
        ("/dev/stdout", "--csv {} is no regular file"),
        ("missing/a.csv", "--csv {}: there is no folder "),
        ("locked/a.csv", "--csv {}: no permission to write in "),
    ],
)
def test_file_that_cannot_be_written_is_refused_first(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "locked").mkdir(mode=0o500)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UserError) as raised, no_privileges():
        refuse_unwritable(tmp_path / name, "--csv")
    assert raised.value.message.startswith(message.format(tmp_path / name))
    assert "give another --csv" in raised.value.hint


def test_standard_output_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("", ".png"):
        with pytest.raises(UserError, match=r"^--png -: a file is written, not standard output$") as raised:
            refuse_unwritable(Path("-"), "--png", suffix)
        assert raised.value.hint == "give --png the name of a file"


@pytest.mark.parametrize(
    ("name", "meant"), [("rate.gif", "rate.png"), ("rate", "rate.png"), ("a.b/rate", "a.b/rate.png")]
)
def test_file_of_another_kind_is_refused(tmp_path: Path, name: str, meant: str) -> None:
    (tmp_path / "a.b").mkdir()
    with pytest.raises(UserError) as raised:
        refuse_unwritable(tmp_path / name, "--png", ".png")
    assert raised.value.message == f"--png {tmp_path / name}: a PNG file is written"
    assert raised.value.hint == f"use --png {tmp_path / meant}"
    refuse_unwritable(tmp_path / meant, "--png", ".png")


def test_file_that_can_be_written_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old.csv").touch()
    for path in ("new.csv", "old.csv", tmp_path / "new.csv"):
        refuse_unwritable(Path(path), "--csv")
    assert names(tmp_path) == ["old.csv"]


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_file_is_not_written_through_a_link(tmp_path: Path, link: Callable[[Path, Path], None]) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / "run").mkdir()
    for name in (".tmp_a.json", "a.json"):
        link(tmp_path / "run" / name, precious)
    write_file(tmp_path / "run/a.json", b"{}")
    assert precious.read_text() == "mine"
    assert names(tmp_path / "run") == ["a.json"]
    assert not (tmp_path / "run/a.json").is_symlink()
    assert (tmp_path / "run/a.json").read_bytes() == b"{}"


def test_folder_of_an_unfinished_name_gives_way(tmp_path: Path) -> None:
    (tmp_path / ".tmp_a.json/below").mkdir(parents=True)
    write_file(tmp_path / "a.json", b"{}")
    assert names(tmp_path) == ["a.json"]


def test_remove_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/file").touch()
    for name in ("link", "folder/link"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).symlink_to(tmp_path / "precious")
    for name in ("link", "folder", "nothing"):
        remove(tmp_path / name)
    assert names(tmp_path) == ["precious"]
    assert names(tmp_path / "precious") == ["file"]
