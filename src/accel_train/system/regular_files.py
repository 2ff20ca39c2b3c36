"""Reads regular files: a name in somebody else's folder may lead to a FIFO or a device, whose reading never ends."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

MOST_BYTES = 64 * 2**20
"""Of a file that describes something; files of tensors and pictures may be larger."""
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, f"it is {_kind(mode)}", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, most: float = MOST_BYTES) -> bytes:
    """Read a regular file, or a link to one.

    Raises:
        OSError: it cannot be read, is not a regular file, or has more than `most` bytes.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EINVAL, f"it has {size:,} bytes, more than {most:,}", str(path))
        return file.read()


def kind_of(path: Path) -> str | None:
    """Return what a path is, such as ``a link``, which is not followed; None if there is nothing."""
    try:
        return _kind(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "a device")
