"""Weights are downloaded from servers that are slow, break off, send something else, or are down."""

import errno
import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers.file_server import Served, serving
from helpers.privileges import no_privileges

from accel_train.errors import UserError
from accel_train.models import download as module
from accel_train.models.download import download, once_a_machine, torch_cache

CONTENT = bytes(range(256)) * 4000
NAME = f"net-{hashlib.sha256(CONTENT).hexdigest()[:8]}.pth"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.01)


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(**{NAME: CONTENT}) as served:
        yield served


def fetch(served: Served, folder: Path, name: str = NAME) -> Path:
    return download(f"{served.address}/{name}", folder)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} - {f".{NAME}.lock"}


def refusal(served: Served, folder: Path, name: str = NAME) -> UserError:
    with pytest.raises(UserError) as caught:
        fetch(served, folder, name)
    return caught.value


def test_file_is_downloaded_once_and_then_only_verified(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "not/there/yet"
    assert fetch(served, folder) == folder / NAME
    assert (folder / NAME).read_bytes() == CONTENT
    assert capsys.readouterr().err == f"downloading {served.address}/{NAME} to {folder}\n"
    assert fetch(served, folder) == folder / NAME
    assert capsys.readouterr().err == ""
    assert served.downloads == [None]
    assert names(folder) == {NAME}


def test_slow_server_is_waited_for(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 100_000)
    monkeypatch.setattr(module, "_REPORT_SECONDS", 0.3)
    monkeypatch.setattr(module, "STALL_SECONDS", 1.5)
    served.pause_seconds = 0.2  # longer in all
    fetch(served, tmp_path)
    assert served.downloads == [None]
    assert re.search(r"\n[01] MB of 1\n", capsys.readouterr().err)


def test_connection_that_breaks_is_resumed(served: Served, tmp_path: Path) -> None:
    served.cuts = [300_000, 500_000]
    fetch(served, tmp_path)
    assert served.downloads == [None, "bytes=300000-", "bytes=800000-"]
    assert names(tmp_path) == {NAME}


def test_server_that_takes_no_ranges_sends_the_file_again(served: Served, tmp_path: Path) -> None:
    served.cuts, served.takes_ranges = [300_000], False
    assert fetch(served, tmp_path).read_bytes() == CONTENT


def test_what_an_interrupted_download_has_left_is_completed(served: Served, tmp_path: Path) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(CONTENT[:1000])
    assert fetch(served, tmp_path).read_bytes() == CONTENT
    assert served.downloads == ["bytes=1000-"]


@pytest.mark.parametrize("left", [b"x" * 1000, CONTENT + b"x"], ids=["of another file", "too long"])
def test_part_of_another_file_is_not_used(served: Served, tmp_path: Path, left: bytes) -> None:
    (tmp_path / f"{NAME}.partial").write_bytes(left)
    assert fetch(served, tmp_path).read_bytes() == CONTENT
    assert names(tmp_path) == {NAME}


def test_connection_that_keeps_breaking_is_given_up_and_what_came_is_kept(served: Served, tmp_path: Path) -> None:
    served.cuts = [400_000, 0, 0, 0]
    error = refusal(served, tmp_path)
    assert error.message == (f"cannot download {served.address}/{NAME}: the connection ended after 0 of 624,000 bytes")
    assert error.hint == f"put the file of {served.address}/{NAME} there: {tmp_path / NAME}"
    assert (tmp_path / f"{NAME}.partial").read_bytes() == CONTENT[:400_000]
    served.cuts = []
    assert fetch(served, tmp_path).read_bytes() == CONTENT
    assert served.downloads[-1] == "bytes=400000-"
    assert names(tmp_path) == {NAME}


def test_wrong_content_is_refused_and_removed(served: Served, tmp_path: Path) -> None:
    served.files[f"/{NAME}"] = b"something else"
    digits = NAME.removeprefix("net-").removesuffix(".pth")
    error = refusal(served, tmp_path)
    assert error.message == f"{served.address}/{NAME} is another file: its sha256 does not start with {digits}"
    assert names(tmp_path) == {f".{NAME}.failed"}
    served.files[f"/{NAME}"] = CONTENT
    fetch(served, tmp_path)
    assert names(tmp_path) == {NAME}


def test_damaged_file_in_the_cache_is_refused(served: Served, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT[:-1])
    error = refusal(served, tmp_path)
    assert error.message.startswith(f"{tmp_path / NAME} is damaged: its sha256 does not start with ")
    assert error.hint.startswith(f"remove it; put the file of {served.address}/{NAME} there: ")
    assert served.requests == []


@pytest.mark.parametrize(("failures", "requests"), [([404], 1), ([503] * 3, 3)])
def test_error_of_the_server_is_told(served: Served, tmp_path: Path, failures: list[int], requests: int) -> None:
    served.failures = [*failures]
    error = refusal(served, tmp_path)
    assert error.message.startswith(f"cannot download {served.address}/{NAME}: {failures[0]} ")
    assert len(served.requests) == requests


def test_overloaded_server_is_asked_again(served: Served, tmp_path: Path) -> None:
    served.failures = [503, 503]
    fetch(served, tmp_path)
    assert len(served.requests) == 3


def test_server_that_is_down_is_one_error_that_names_the_file(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{NAME}"
        with pytest.raises(UserError) as caught:
            download(url, tmp_path)
    assert caught.value.message == f"cannot download {url}: [Errno 111] Connection refused"
    assert caught.value.hint == f"put the file of {url} there: {tmp_path / NAME}"


def test_server_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STALL_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{NAME}"
        with pytest.raises(UserError, match="timed out"):
            download(url, tmp_path)


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EDQUOT, "No quota")])
def test_full_disk_is_told_at_once(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    tries = []

    def append(url: str, partial: Path) -> None:
        tries.append(url)
        raise error

    monkeypatch.setattr(module, "_append", append)
    refused = refusal(served, tmp_path)
    assert refused.message == f"cannot write to {tmp_path}: {error.strerror}"
    assert refused.hint.startswith("make space there, or let TORCH_HOME name another folder")
    assert len(tries) == 1


def test_file_without_a_checksum_in_its_name_is_taken_as_it_is(served: Served, tmp_path: Path) -> None:
    served.files["/net.pth"] = b"anything"
    assert fetch(served, tmp_path, "net.pth").read_bytes() == b"anything"


def test_processes_at_the_same_time_download_once(served: Served, tmp_path: Path) -> None:
    served.pause_seconds = 0.02
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: fetch(served, tmp_path), range(3)))
    assert found == [tmp_path / NAME] * 3
    assert served.downloads == [None]


def test_those_that_wait_for_a_download_that_fails_fail_alike(served: Served, tmp_path: Path) -> None:
    served.pause_seconds, served.files[f"/{NAME}"] = 0.1, b"something else"  # all begin before it has come
    with ThreadPoolExecutor(3) as pool:
        errors = list(pool.map(lambda _: refusal(served, tmp_path), range(3)))
    assert len({error.message for error in errors}) == 1
    assert served.downloads == [None]


def test_failure_of_an_earlier_run_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / NAME
    with pytest.raises(UserError, match="no network"), once_a_machine(file, "hint"):
        raise UserError("no network", "hint")
    old = time.time() - 10
    os.utime(tmp_path / f".{NAME}.failed", (old, old))
    with once_a_machine(file, "hint"):
        file.touch()
    assert names(tmp_path) == {NAME}


def test_read_only_cache_serves_what_it_has_and_names_what_it_lacks(served: Served, tmp_path: Path) -> None:
    fetch(served, tmp_path)
    (tmp_path / f".{NAME}.lock").unlink()
    other = "more-0123abcd.pth"
    tmp_path.chmod(0o555)
    try:
        with no_privileges():
            assert fetch(served, tmp_path) == tmp_path / NAME
            error = refusal(served, tmp_path, other)
    finally:
        tmp_path.chmod(0o755)
    assert error.message == f"cannot download to {tmp_path}: no permission to write"
    assert error.hint == f"put the file of {served.address}/{other} there: {tmp_path / other}"


def test_cache_is_that_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    assert torch_cache() == tmp_path / "hub/checkpoints"
