"""Errors of the system are explained by the file system or limit at fault; others are left alone."""

import errno
import os
import resource
from pathlib import Path

import pytest

from accel_train.system import os_errors
from accel_train.system.os_errors import AGAIN, cannot_write, explain, format_bytes, number_of

RESUME = "start the same command again: a run resumes from its last checkpoint"
GIB = 2**30


@pytest.fixture
def spaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, tuple[int, int]]:
    """Return the free and all blocks of file systems by mount point: a dict to change."""
    blocks: dict[str, tuple[int, int]] = {"/dev/shm": (9, 10), "/tmp": (9, 10), "/": (9, 10)}
    monkeypatch.setenv("TMPDIR", "/tmp")

    def statvfs(path: Path) -> os.statvfs_result:
        free, total = blocks[str(path)]
        return os.statvfs_result((2**20, 2**20, total, free, free, 100, 100, 100, 0, 255))

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(Path, "is_mount", lambda path: str(path) in blocks)
    monkeypatch.setattr(Path, "exists", lambda path: True)
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    monkeypatch.setattr(Path, "resolve", lambda path: Path("/") if str(path).startswith("/proc") else path)
    monkeypatch.chdir(tmp_path)
    return blocks


def full(name: str | None = None) -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        ("/dev/shm", "enlarge shared memory (docker run --shm-size 1g, or mount -o remount,size=1g /dev/shm), or use"),
        ("/tmp", "free some space there, or set TMPDIR to a folder with more"),
        ("/", f"free some space and {RESUME}"),
    ],
)
def test_full_file_system_is_found(spaces: dict[str, tuple[int, int]], place: str, hint: str) -> None:
    spaces[place] = (0, 64)
    found = explain(full())
    assert found
    assert found.reason == f"No space left on device: the file system {place} has 0.0 KiB of 64.0 MiB free"
    assert found.hint.startswith(hint)


def test_file_system_of_the_file_is_named_even_if_another_is_full(spaces: dict[str, tuple[int, int]]) -> None:
    spaces |= {"/dev/shm": (0, 64), "/data": (3, 4096)}
    found = explain(full("/data/run/model.safetensors"))
    assert found == (
        "No space left on device: the file system /data has 3.0 MiB of 4.0 GiB free",
        f"free some space and {RESUME}",
    )


def test_no_file_system_is_blamed_if_none_is_full(spaces: dict[str, tuple[int, int]]) -> None:
    assert explain(full()) == (
        "No space left on device",
        "free some space on that of /, /dev/shm, /tmp which df shows to be full",
    )


def test_command_that_is_no_run_is_only_started_again(spaces: dict[str, tuple[int, int]]) -> None:
    spaces["/data"] = (3, 4096)
    found = explain(full("/data/table.csv"), again=AGAIN)
    assert found
    assert found.hint == "free some space and start the same command again"


@pytest.mark.parametrize("error", [full(), RuntimeError("I/O error: No space left on device (os error 28)")])
def test_output_that_does_not_fit_is_named_with_its_option(
    spaces: dict[str, tuple[int, int]], error: Exception
) -> None:
    spaces |= {"/dev/shm": (0, 64), "/data": (3, 4096)}
    refused = cannot_write(Path("/data/table.csv"), "--csv", error)
    assert refused.message == (
        "cannot write /data/table.csv: No space left on device: the file system /data has 3.0 MiB of 4.0 GiB free"
    )
    assert refused.hint == "free some space and start the same command again, or give another --csv"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOENT])
def test_output_that_is_no_place_for_a_file_needs_another(tmp_path: Path, number: int) -> None:
    refused = cannot_write(tmp_path / "table.csv", "--csv", OSError(number, os.strerror(number)))
    assert refused.message == f"cannot write {tmp_path / 'table.csv'}: {os.strerror(number)}"
    assert refused.hint == "give another --csv"


ALLOCATOR = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator"


@pytest.mark.parametrize(
    ("error", "number"),
    [
        (OSError(errno.EMFILE, "Too many open files"), errno.EMFILE),
        (MemoryError(), errno.ENOMEM),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), errno.ENOMEM),
        (ImportError("no module named nothing"), None),
        (RuntimeError("can't start new thread"), errno.EAGAIN),
        (RuntimeError("unable to write to file </torch_123_0>: No space left on device (28)"), errno.ENOSPC),
        (RuntimeError("unable to mmap 40 bytes from file </memfd>: Cannot allocate memory (12)"), errno.ENOMEM),
        (RuntimeError(f"{ALLOCATOR}: can't allocate memory: you tried to allocate 8796093022208 bytes."), errno.ENOMEM),
        (RuntimeError("my can't allocate memory"), None),
        (ValueError("Error while serializing: I/O error: No space left on device (os error 28)"), errno.ENOSPC),
        (RuntimeError("sizes do not match: (28)"), None),
        (RuntimeError("a shape: No space left on device (12)"), None),
    ],
)
def test_number_is_read_from_errors_and_messages(error: Exception, number: int | None) -> None:
    assert number_of(error) == number


LIMITS = {resource.RLIMIT_NOFILE: 256, resource.RLIMIT_FSIZE: 5 * GIB, resource.RLIMIT_AS: 3 * GIB}


@pytest.mark.parametrize(
    ("number", "reason", "hint"),
    [
        (errno.EMFILE, "Too many open files: this process may open 256 (ulimit -n)", "raise the limit with ulimit -n"),
        (errno.ENFILE, "Too many open files in system (fs.file-max)", "end other programs"),
        (errno.EFBIG, "File too large: this process may write files of 5.0 GiB (ulimit -f)", "run ulimit -f unlimited"),
        (errno.ENOMEM, "Cannot allocate memory: this process may use 3.0 GiB (ulimit -v)", "run ulimit -v unlimited"),
        (errno.EAGAIN, "Resource temporarily unavailable: no more processes and threads can be started", "raise the"),
    ],
)
def test_limit_is_named(monkeypatch: pytest.MonkeyPatch, number: int, reason: str, hint: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (LIMITS[which], LIMITS[which]))
    found = explain(OSError(number, os.strerror(number)))
    assert found
    assert found.reason == reason
    assert found.hint.startswith(hint)


def test_file_size_that_the_file_system_limits_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert explain(OSError(errno.EFBIG, "File too large")) == (
        "File too large for this file system",
        "use another file system",
    )


def test_memory_without_a_limit_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert explain(MemoryError()) == (
        "Cannot allocate memory",
        "use fewer --workers, a smaller --batch-size or a smaller --model",
    )


@pytest.mark.parametrize("number", [errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOTCONN, errno.EACCES, errno.EPERM])
def test_file_system_that_fails_is_named(
    spaces: dict[str, tuple[int, int]], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces["/data"] = (3, 4)
    assert explain(OSError(number, "", "/data/run/x")) == (
        f"{os.strerror(number)}: on the file system /data",
        f"make /data usable, then {RESUME}",
    )
    monkeypatch.setattr(os, "access", lambda path, mode: True)
    assert explain(OSError(number, "")) is None
    monkeypatch.setattr(os, "access", lambda path, mode: path != Path("/dev/shm"))
    assert explain(OSError(number, "")) == (
        f"{os.strerror(number)}: shared memory, /dev/shm, cannot be written",
        "make /dev/shm writable, or use --workers 0",
    )


def test_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    error = FileNotFoundError(errno.ENOENT, "", str(tmp_path / "kept" / "run" / "log" / "file"))
    assert explain(error) == (
        f"{tmp_path / 'kept' / 'run'} is missing: it has been removed or renamed",
        f"put it back, or {RESUME}",
    )


def test_current_folder_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    expected = ("the current folder has been removed", "change to a folder that exists")
    assert explain(FileNotFoundError(errno.ENOENT, "")) == expected


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("is killed by signal: Killed. ", "a loader worker was killed, perhaps because memory is full"),
        ("is killed by signal: Segmentation fault. ", "a loader worker crashed: Segmentation fault"),
        (
            "exited unexpectedly with exit code 1.",
            "a loader worker exited, perhaps because a file has become shorter, or memory is full",
        ),
    ],
)
def test_lost_loader_worker_is_told(message: str, reason: str) -> None:
    found = explain(RuntimeError(f"DataLoader worker (pid(s) 123) {message}"))
    assert found
    assert found.reason == reason


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (
            0,
            "a loader worker ended by a bus error, as when shared memory is full: the file system /dev/shm has 0.0 KiB",
        ),
        (40, "a loader worker ended by a bus error: a file of the data has become shorter, or is unreadable"),
    ],
)
def test_bus_error_is_told_by_what_is_full(spaces: dict[str, tuple[int, int]], left: int, reason: str) -> None:
    spaces["/dev/shm"] = (left, 64)
    found = explain(RuntimeError("DataLoader worker (pid 123) is killed by signal: Bus error. It is possible that"))
    assert found
    assert found.reason.startswith(reason)


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("DataLoader"), OSError("x"), ConnectionResetError()])
def test_other_errors_are_not_explained(error: Exception) -> None:
    assert explain(error) is None


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0.0 KiB"), (1536, "1.5 KiB"), (2**20, "1.0 MiB"), (5 * GIB, "5.0 GiB")]
)
def test_bytes_have_a_unit(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_limit_of_memory_is_none_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert os_errors.address_space_limit() is None
