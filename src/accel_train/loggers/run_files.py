"""Opens the files that loggers append to: regular files of a run folder, never what a link leads to."""

import math
import os
from pathlib import Path
from typing import TextIO

from accel_train.errors import LocalError
from accel_train.system.atomic_files import write_file
from accel_train.system.regular_files import kind_of, read_regular


def open_to_append(path: Path) -> TextIO:
    """Open a file to append to; make it and its folder if they are missing.

    Raises:
        LocalError: it is a link, or another kind of file.
        OSError: it cannot be opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = kind_of(path)
    if kind not in (None, "a file"):
        raise LocalError(
            f"{path} is {kind}", "remove it, or give another --output: a run writes only to files of its own"
        )
    if kind and path.stat().st_nlink > 1:
        write_file(path, read_regular(path, math.inf))  # a copy: the other names keep their content
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    return open(path, "a", encoding="utf-8", errors="backslashreplace", opener=lambda *_: descriptor)
