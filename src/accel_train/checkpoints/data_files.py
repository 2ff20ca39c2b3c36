"""The list of the files of a run's data, as its folder holds it."""

import zlib
from dataclasses import dataclass
from pathlib import Path

from accel_train.data.contents import Files
from accel_train.errors import UserError
from accel_train.history.files import DATA_FILES
from accel_train.system.records import Count, Text, checked, parse_json
from accel_train.system.regular_files import read_regular

_MOST_COMPRESSED = 100
"""How many times as large a list of files may be as its gzip file, besides a first MiB; a bomb has 1,000 times."""
_MOST_BYTES = 2**30


@dataclass(frozen=True)
class _StoredFiles:
    """The files of a run's data, with their bytes."""

    train: dict[Text, Count]
    val: dict[Text, Count]


def read_files(folder: Path) -> Files | None:
    """Read the files of a run's data; None if its images were not read from files.

    Raises:
        UserError: the list is unreadable.
    """
    path = folder / DATA_FILES
    try:
        return vars(checked(parse_json(_decompressed(read_regular(path, _MOST_BYTES))), _StoredFiles))
    except FileNotFoundError:
        return None
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    except zlib.error as error:
        reason = f"is damaged: {error}"
    except ValueError as error:
        reason = str(error)
    raise UserError(f"{path} {reason}", "remove it: it only tells which files of the data have changed since")


def _decompressed(data: bytes) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    most = 2**20 + _MOST_COMPRESSED * len(data)
    decompressed = decompressor.decompress(data, most)
    if decompressor.unconsumed_tail:
        raise ValueError(f"is damaged: it has more than {most:,} bytes when decompressed")
    if not decompressor.eof:
        raise ValueError("is damaged: its end is missing")
    return decompressed
