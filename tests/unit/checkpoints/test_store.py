"""A checkpoint is whole or not there, wherever its writer is killed, and damage is noticed."""

import itertools
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from accel_train.checkpoints.store import begin, commit, newest_whole, problem, prune, update_of
from accel_train.system.atomic_files import clean, write_file

FILES = {"state.json": b'{"update": 9}', "tensors/a.safetensors": bytes(range(200)), "tensors/deep/b": b""}
CALLS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.fsync", "os.scandir", "shutil.rmtree"}


def save(checkpoints: Path, update: int) -> Path:
    partial = begin(checkpoints, update, "ab_c")
    for name, data in FILES.items():
        (partial / name).parent.mkdir(exist_ok=True, parents=True)
        (partial / name).write_bytes(data)
    return commit(partial)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fork(work: Callable[[], None]) -> int:
    """Return the exit code of a forked child that does some work, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_at_call(number: int) -> None:
    """Have this process kill itself before its file system call of that number."""
    calls = itertools.count(1)
    fsync = os.fsync

    def hook(event: str, _: object) -> None:
        if event in CALLS and next(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def audited_fsync(descriptor: int) -> None:
        sys.audit("os.fsync", descriptor)
        fsync(descriptor)

    sys.addaudithook(hook)
    os.fsync = audited_fsync


def die_at_byte(number: int) -> None:
    """Have the system kill this process when it writes that byte of any file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, number))


def fail_at_byte(number: int) -> None:
    """Have the system refuse to write that byte of any file, as if the disk were full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))


def go_on(checkpoints: Path, acknowledge: Callable[[int], None]) -> None:
    """Do what a run does with its checkpoints."""
    clean(checkpoints)
    for update in (300, 400):
        save(checkpoints, update)
        acknowledge(update)
        prune(checkpoints, 2, {100})


@pytest.fixture
def began(tmp_path: Path) -> Path:
    """Return the checkpoints of a run that has saved 100 and 200."""
    for update in (100, 200):
        save(tmp_path / "began", update)
    return tmp_path / "began"


def test_a_checkpoint_and_its_manifest(tmp_path: Path) -> None:
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


def test_processes_share_the_folder_they_write_into(tmp_path: Path) -> None:
    assert begin(tmp_path, 900, "ab") == begin(tmp_path, 900, "ab") == tmp_path / ".tmp_update_000900_ab"
    assert newest_whole(tmp_path) == (None, [])


@pytest.mark.parametrize(
    ("damage", "said"),
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
def test_damage_is_named_and_an_older_one_used(began: Path, damage: Callable[[Path], object], said: str) -> None:
    damage(began / "update_000200")
    (sentence,) = newest_whole(began)[1]
    assert sentence.startswith(f"checkpoint update_000200 is damaged ({said}")
    assert newest_whole(began)[0] == began / "update_000100"


def test_every_bit_and_every_length_counts(began: Path) -> None:
    checkpoint = began / "update_000200"
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


def test_a_file_that_cannot_be_read_is_a_problem(began: Path) -> None:
    loop = began / "update_000200/state.json"
    loop.unlink()
    loop.symlink_to("state.json")
    assert problem(began / "update_000200") == "state.json: Too many levels of symbolic links"


def test_the_newest_is_the_highest_update(tmp_path: Path) -> None:
    for update in (1_000_000, 999_999):
        save(tmp_path, update)
    for strange in ("update_9999999.bak", "update_²", "update_"):
        (tmp_path / strange).mkdir()
    (tmp_path / "update_8888888").touch()
    assert newest_whole(tmp_path) == (tmp_path / "update_1000000", [])
    assert newest_whole(tmp_path / "nothing") == (None, [])


def test_pruning_keeps_the_newest_and_those_named(tmp_path: Path) -> None:
    for update in (100, 200, 300, 400, 500):
        save(tmp_path, update)
    prune(tmp_path, 2, {200, None})
    assert names(tmp_path) == ["update_000200", "update_000400", "update_000500"]
    prune(tmp_path, 5, set())
    assert len(names(tmp_path)) == 3


def test_cleaning_removes_what_is_half_done_only(began: Path) -> None:
    (begin(began, 300, "ab") / "state.json").touch()
    (began / ".tmp_file").touch()
    clean(began)
    assert names(began) == ["update_000100", "update_000200"]
    clean(began / "nothing")


def test_a_whole_one_of_the_same_update_stays(began: Path) -> None:
    inode = (began / "update_000200").stat().st_ino
    assert save(began, 200).stat().st_ino == inode
    (began / "update_000200/state.json").write_bytes(b"")
    assert save(began, 200).stat().st_ino != inode
    assert newest_whole(began) == (began / "update_000200", [])
    assert names(began) == ["update_000100", "update_000200"]


@pytest.mark.parametrize("found", ["nothing", "whole", "damaged"])
def test_killed_before_any_call_nothing_acknowledged_is_lost(began: Path, tmp_path: Path, found: str) -> None:
    """`found` is what there is of update 300 already."""
    if found != "nothing":
        save(began, 300)
    if found == "damaged":
        (began / "update_000300/state.json").write_bytes(b"")
    lowest = 300 if found == "whole" else 200
    for call in itertools.count(1):
        ended = killed(began, tmp_path / "run", lambda number=call: die_at_call(number), lowest)
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert call > 60


def test_killed_in_any_write_nothing_acknowledged_is_lost(began: Path, tmp_path: Path) -> None:
    largest = (began / "update_000200/MANIFEST.json").stat().st_size
    for byte in range(0, largest, 9):
        ended = killed(began, tmp_path / "run", lambda number=byte: die_at_byte(number), 200)
        assert ended == -signal.SIGXFSZ
    assert killed(began, tmp_path / "run", lambda: die_at_byte(largest), 200) == 0


def killed(began: Path, checkpoints: Path, plan_death: Callable[[], None], lowest: int) -> int:
    """Let a run die, check what it leaves and that it can go on; return its exit code."""
    shutil.rmtree(checkpoints, ignore_errors=True)
    shutil.copytree(began, checkpoints)
    damaged = newest_whole(checkpoints)[1]
    acknowledged = checkpoints.with_name("acknowledged")

    def die() -> None:
        with acknowledged.open("w") as report:
            plan_death()
            go_on(checkpoints, lambda update: print(update, file=report, flush=True))

    ended = fork(die)
    newest, problems = newest_whole(checkpoints)
    assert newest
    assert update_of(newest) >= max([lowest, *map(int, acknowledged.read_text().split())])
    assert problems in ([], damaged)
    assert problem(checkpoints / "update_000100") is None
    go_on(checkpoints, lambda _: None)
    assert names(checkpoints) == ["update_000100", "update_000300", "update_000400"]
    assert not any(map(problem, checkpoints.iterdir()))
    return ended


@pytest.mark.parametrize("byte", [0, 50, 100])
def test_on_a_full_disk_the_old_one_stays_and_nothing_half(began: Path, byte: int) -> None:
    def commit_without_room() -> None:
        partial = begin(began, 300, "ab")
        (partial / "empty").touch()
        fail_at_byte(byte)
        with pytest.raises(OSError, match="File too large"):
            commit(partial)

    assert fork(commit_without_room) == 0
    assert names(began) == ["update_000100", "update_000200"]
    assert newest_whole(began) == (began / "update_000200", [])


@pytest.mark.parametrize("byte", [0, 50, 150])
def test_on_a_full_disk_a_file_stays_as_it_was(tmp_path: Path, byte: int) -> None:
    def write_without_room() -> None:
        fail_at_byte(byte)
        with pytest.raises(OSError, match="File too large"):
            write_file(tmp_path / "a.json", bytes(200))

    write_file(tmp_path / "a.json", b"old")
    assert fork(write_without_room) == 0
    assert names(tmp_path) == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_killed_anywhere_a_file_is_the_old_or_the_new_one(tmp_path: Path) -> None:
    path, old, new = tmp_path / "a.json", b"old", b"n" * 20
    deaths = [lambda number=n: die_at_call(number) for n in range(1, 7)]
    deaths += [lambda number=n: die_at_byte(number) for n in range(20)]
    found = set()
    for die in deaths:
        write_file(path, old)
        assert fork(lambda plan_death=die: (plan_death(), write_file(path, new))) in (-signal.SIGKILL, -signal.SIGXFSZ)
        found.add(path.read_bytes())
        clean(tmp_path)
        assert names(tmp_path) == ["a.json"]
    assert found == {old, new}
    assert fork(lambda: (die_at_call(len(deaths)), write_file(path, new))) == 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of what is synced or renamed, in that order, from now on."""
    seen: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def name(descriptor: int) -> str:
        return Path(f"/proc/self/fd/{descriptor}").readlink().name

    monkeypatch.setattr(os, "fsync", lambda descriptor: (seen.append(name(descriptor)), fsync(descriptor)))
    monkeypatch.setattr(os, "rename", lambda a, b: (seen.append(f"{a.name} -> {b.name}"), rename(a, b)))
    monkeypatch.setattr(os, "replace", lambda a, b: (seen.append(f"{a.name} -> {b.name}"), replace(a, b)))
    return seen


def test_all_is_on_the_disk_before_a_rename_and_the_rename_after_it(tmp_path: Path, calls: list[str]) -> None:
    partial, checkpoints = ".tmp_update_000900_ab_c", tmp_path / "run" / "checkpoints"
    save(checkpoints, 900)
    inside = {"state.json", "a.safetensors", "b", "tensors", "deep", "MANIFEST.json", partial}
    assert calls[0] == "run"
    assert set(calls[1:-2]) == inside
    assert calls[-2:] == [f"{partial} -> update_000900", "checkpoints"]

    calls.clear()
    save(checkpoints, 900)  # stays, and its rename may not be on the disk yet
    assert calls[-1] == "checkpoints"

    calls.clear()
    save(checkpoints, 901)
    prune(checkpoints, 1, set())
    assert calls[-2:] == ["update_000900 -> .tmp_removed_update_000900", "checkpoints"]

    calls.clear()
    write_file(tmp_path / "a.json", b"{}")
    assert calls == [".tmp_a.json", ".tmp_a.json -> a.json", tmp_path.name]
