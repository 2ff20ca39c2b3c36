"""A checkpoint is committed, verified, found and pruned; damage is noticed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.checkpoints import FILES, save
from helpers.file_faults import names, recorded_operations

from accel_train.checkpoints.store import (
    begin,
    commit,
    name_of,
    newest_valid,
    problem,
    prune,
    set_aside_newer,
    update_of,
    updates_from,
)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return the checkpoint folder of a run that has saved updates 100 and 200."""
    for update in (100, 200):
        save(tmp_path / "saved", update)
    return tmp_path / "saved"


def test_checkpoint_has_a_manifest_of_its_files(tmp_path: Path) -> None:
    checkpoint = save(tmp_path / "run" / "checkpoints", 900)
    assert checkpoint == tmp_path / "run/checkpoints/update_000900"
    assert problem(checkpoint) is None
    assert update_of(checkpoint) == 900
    assert update_of(save(checkpoint.parent, 12345678)) == 12345678
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    assert manifest["format"] == 1
    assert list(manifest["files"]) == sorted(FILES)
    assert {name: facts["bytes"] for name, facts in manifest["files"].items()} == {n: len(d) for n, d in FILES.items()}
    assert {name: (checkpoint / name).read_bytes() for name in FILES} == FILES


def test_checkpoints_around_an_update_are_found(saved: Path) -> None:
    assert newest_valid(saved, before=200) == (saved / name_of(100), [])
    assert newest_valid(saved, before=201) == (saved / name_of(200), [])
    assert newest_valid(saved, before=100) == (None, [])
    assert [updates_from(saved, update) for update in (100, 101, 201)] == [[100, 200], [200], []]


def test_processes_write_to_the_same_folder(tmp_path: Path) -> None:
    assert begin(tmp_path, 900, "ab") == begin(tmp_path, 900, "ab") == tmp_path / ".tmp_update_000900_ab"
    assert newest_valid(tmp_path) == (None, [])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda folder: (folder / "state.json").unlink(), "state.json is missing"),
        (lambda folder: shutil.rmtree(folder / "tensors"), "tensors/a.safetensors is missing"),
        (lambda folder: (folder / "state.json").write_bytes(b"{}"), "state.json has 2 bytes instead of 13"),
        (lambda folder: (folder / "tensors/a.safetensors").write_bytes(bytes(200)), "tensors/a.safetensors: sha256 di"),
        (lambda folder: (folder / "tensors/deep/b").write_bytes(b"x"), "tensors/deep/b has 1 bytes instead of 0"),
        (lambda folder: (folder / "tensors/c.pkl").write_bytes(b""), "tensors/c.pkl is not in MANIFEST.json"),
        (lambda folder: (folder / "tensors/MANIFEST.json").touch(), "tensors/MANIFEST.json is not in MANIFEST.json"),
        (lambda folder: (folder / "elsewhere").symlink_to("/"), "elsewhere is not in MANIFEST.json"),
        (lambda folder: (folder / "dangling").symlink_to("nothing"), "dangling is not in MANIFEST.json"),
        (lambda folder: (folder / "MANIFEST.json").unlink(), "MANIFEST.json is missing"),
        (lambda folder: (folder / "MANIFEST.json").write_bytes(b"\xff"), "MANIFEST.json is damaged"),
        (lambda folder: (folder / "MANIFEST.json").write_text("[]"), "MANIFEST.json is damaged"),
        (
            lambda folder: (folder / "MANIFEST.json").write_text('{"format": 2, "files": {}}'),
            "MANIFEST.json has format 2, this version reads 1",
        ),
    ],
)
def test_damage_is_reported_and_older_checkpoint_used(
    saved: Path, damage: Callable[[Path], object], problem: str
) -> None:
    damage(saved / "update_000200")
    (sentence,) = newest_valid(saved)[1]
    assert sentence.startswith(f"checkpoint update_000200 is damaged ({problem}")
    assert newest_valid(saved)[0] == saved / "update_000100"


def test_every_flipped_bit_and_truncation_is_noticed(saved: Path) -> None:
    checkpoint = saved / "update_000200"
    for name in ("state.json", "MANIFEST.json"):
        data = (checkpoint / name).read_bytes()
        shorter = [data[:length] for length in range(len(data))]
        flipped = [
            data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :] for at in range(len(data)) for bit in range(8)
        ]
        for wrong in (*shorter, *flipped, bytes(len(data))):
            (checkpoint / name).write_bytes(wrong)
            assert problem(checkpoint), wrong
        (checkpoint / name).write_bytes(data)
    assert problem(checkpoint) is None


def test_unreadable_file_is_a_problem(saved: Path) -> None:
    loop = saved / "update_000200/state.json"
    loop.unlink()
    loop.symlink_to("state.json")
    assert problem(saved / "update_000200") == "state.json: Too many levels of symbolic links"


@pytest.mark.timeout(10)
def test_file_that_never_ends_is_a_problem(saved: Path) -> None:
    for name in ("MANIFEST.json", "state.json"):
        (saved / "update_000200" / name).unlink()
        os.mkfifo(saved / "update_000200" / name)
        assert problem(saved / "update_000200") == f"{name}: it is a FIFO"
        (saved / "update_000200" / name).unlink()
        shutil.copy(saved / "update_000100" / name, saved / "update_000200" / name)
    with (saved / "update_000200/tensors/a.safetensors").open("wb") as file:
        file.truncate(2**42)  # sparse; to hash it would take an hour
    assert problem(saved / "update_000200") == "tensors/a.safetensors has 4398046511104 bytes instead of 200"


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"state.json": 5}, "is damaged: files.state.json is 5"),
        ({"state.json": {"sha256": "aa", "bytes": 1}}, "is damaged: files.state.json.sha256 is 'aa'"),
        ({"state.json": {"sha256": "a" * 64, "bytes": -1}}, "is damaged: files.state.json.bytes is -1"),
        ({"state.json": {"sha256": "a" * 64}}, "is damaged: files.state.json.bytes is missing"),
        ({"../../x": {"sha256": "a" * 64, "bytes": 1}}, "MANIFEST.json"),
    ],
)
def test_manifest_with_a_value_that_cannot_be_right_is_a_problem(saved: Path, files: object, reason: str) -> None:
    (saved / "update_000200/MANIFEST.json").write_text(json.dumps({"format": 1, "files": files}))
    assert reason in str(problem(saved / "update_000200"))


def test_checkpoint_that_is_a_link_is_replaced_and_its_target_kept(saved: Path, tmp_path: Path) -> None:
    elsewhere = (saved / "update_000200").rename(tmp_path / "elsewhere")
    for update in (200, 300):
        (saved / f"update_{update:06d}").symlink_to(elsewhere)
    (saved / "update_000400").symlink_to(tmp_path / "nothing")
    (saved / "set_aside_update_000300").symlink_to(elsewhere)
    assert newest_valid(saved) == (
        saved / "update_000100",
        [f"checkpoint update_{update:06d} is damaged (it is a link)" for update in (300, 200)],
    )
    for update in (200, 400):
        assert not save(saved, update).is_symlink()
    set_aside_newer(saved, saved / "update_000200")
    prune(saved, 1, set())
    assert names(saved) == ["set_aside_update_000300", "set_aside_update_000400", "update_000200"]
    assert names(elsewhere) == ["MANIFEST.json", "state.json", "tensors"]


def test_newest_checkpoint_has_the_highest_update(tmp_path: Path) -> None:
    for update in (1_000_000, 999_999):
        save(tmp_path, update)
    for other in ("update_9999999.bak", "update_²", "update_"):
        (tmp_path / other).mkdir()
    (tmp_path / "update_8888888").touch()
    assert newest_valid(tmp_path) == (tmp_path / "update_1000000", [])
    assert newest_valid(tmp_path / "nothing") == (None, [])


def test_prune_keeps_newest_and_named_checkpoints(tmp_path: Path) -> None:
    for update in (100, 200, 300, 400, 500):
        save(tmp_path, update)
    size = sum(map(len, FILES.values()))
    assert prune(tmp_path, 2, {200, None}) == [size, size]
    assert names(tmp_path) == ["update_000200", "update_000400", "update_000500"]
    assert prune(tmp_path, 5, set()) == []
    assert len(names(tmp_path)) == 3


def test_commit_keeps_valid_checkpoint_of_same_update_and_replaces_damaged(saved: Path) -> None:
    inode = (saved / "update_000200").stat().st_ino
    assert save(saved, 200).stat().st_ino == inode
    (saved / "update_000200/state.json").write_bytes(b"")
    assert save(saved, 200).stat().st_ino != inode
    assert newest_valid(saved) == (saved / "update_000200", [])
    assert names(saved) == ["update_000100", "update_000200"]


def test_commit_replaces_a_valid_checkpoint_of_another_attempt(saved: Path) -> None:
    partial = begin(saved, 200, "another")
    (partial / "state.json").write_text('{"nonce": "another"}')
    commit(partial)
    assert (saved / "update_000200/state.json").read_text() == '{"nonce": "another"}'
    assert newest_valid(saved) == (saved / "update_000200", [])
    assert names(saved) == ["update_000100", "update_000200"]


def test_files_are_synced_before_a_rename_and_the_folder_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    operations = recorded_operations(monkeypatch)
    partial, checkpoints = ".tmp_update_000900_ab_c", tmp_path / "run" / "checkpoints"
    save(checkpoints, 900)
    inside = {"state.json", "a.safetensors", "b", "tensors", "deep", "MANIFEST.json", partial}
    assert operations[0] == "run"
    assert set(operations[1:-2]) == inside
    assert operations[-2:] == [f"{partial} -> update_000900", "checkpoints"]

    operations.clear()
    save(checkpoints, 900)  # kept, but its rename may not be on disk yet
    assert operations[-1] == "checkpoints"

    operations.clear()
    save(checkpoints, 901)
    prune(checkpoints, 1, set())
    assert operations[-2:] == ["update_000900 -> .tmp_removed_update_000900", "checkpoints"]


def test_newer_checkpoints_are_set_aside(tmp_path: Path) -> None:
    for update in (100, 200, 300):
        save(tmp_path / "run", update)
    (tmp_path / "run/set_aside_update_000300").mkdir()
    set_aside_newer(tmp_path / "run", tmp_path / "run/update_000200")
    kept = ["set_aside_update_000300", "update_000100", "update_000200"]
    assert names(tmp_path / "run") == kept
    assert names(tmp_path / "run/set_aside_update_000300") == ["MANIFEST.json", "state.json", "tensors"]
    set_aside_newer(tmp_path / "run", tmp_path / "other/update_000100")
    assert names(tmp_path / "run") == kept
