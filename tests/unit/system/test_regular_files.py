"""Only regular files of a bounded size are read; a FIFO, a socket or a device is refused at once."""

import os
import socket
from pathlib import Path

import pytest

from accel_train.system.regular_files import kind_of, open_regular, read_regular

pytestmark = pytest.mark.timeout(10)  # reading a FIFO never ends


def test_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "file") == read_regular(tmp_path / "link") == b"mine"
    with open_regular(tmp_path / "file") as file:
        assert file.read(2) == b"mi"


def test_other_kinds_are_refused_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket is short
    os.mkfifo("fifo")
    Path("folder").mkdir()
    Path("file").touch()
    Path("link").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    kinds = {"fifo": "a FIFO", "folder": "a folder", "file": "a file", "link": "a link", "socket": "a socket"}
    assert {name: kind_of(Path(name)) for name in kinds} == kinds
    assert kind_of(Path("/dev/null")) == "a device"
    assert kind_of(Path("nothing")) is kind_of(Path("file/below")) is None
    for path, reason in (("fifo", "it is a FIFO"), ("link", "it is a FIFO"), ("folder", "it is a folder")):
        with pytest.raises(OSError, match=reason):
            open_regular(Path(path))
    with pytest.raises(OSError, match="it is a device"):
        open_regular(Path("/dev/zero"))
    with pytest.raises(OSError, match="No such device or address"):
        open_regular(Path("socket"))


def test_larger_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="it has 1,099,511,627,776 bytes, more than 67,108,864"):
        read_regular(tmp_path / "sparse")
    (tmp_path / "sparse").write_bytes(b"four")
    assert read_regular(tmp_path / "sparse", 4) == b"four"
    with pytest.raises(OSError, match="it has 4 bytes, more than 3"):
        read_regular(tmp_path / "sparse", 3)


def test_refused_file_is_closed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(OSError, match="FIFO"):
            open_regular(tmp_path / "fifo")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
