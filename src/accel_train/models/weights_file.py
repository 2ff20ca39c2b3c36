"""Files of weights that carry their own SHA-256, so that a damaged one is not used.

They are safetensors files, which other programs load as usual. Their metadata contain the SHA-256 of the whole file, in
which these 64 digits themselves count as zeros.
"""

import hashlib
from pathlib import Path

import safetensors.torch
from torch import Tensor

from accel_train.errors import UserError
from accel_train.system.regular_files import open_regular

_KEY = "accel_train.sha256"
_BLANK = b"0" * 64
_BEFORE_DIGITS = f'"{_KEY}":"'.encode()
_MAX_HEADER = 100_000_000
"""Bytes; safetensors refuses more."""
_CHUNK = 1 << 20
_HINT = "copy it again from where it was written, or train again"


def encode(weights: dict[str, Tensor]) -> bytes:
    """Return the file that contains weights on the CPU."""
    content = safetensors.torch.save(weights, {_KEY: _BLANK.decode()})
    first = content.index(_BEFORE_DIGITS) + len(_BEFORE_DIGITS)
    digits = hashlib.sha256(content).hexdigest().encode()
    return b"".join((content[:first], digits, content[first + len(_BLANK) :]))


def verify(path: Path, *, needs_checksum: bool) -> None:
    """Compare a safetensors file with its checksum; one without passes, unless it needs one.

    Raises:
        OSError: the file cannot be read.
        UserError: it is damaged.
    """
    with open_regular(path) as file:
        size = file.read(8)
        header = file.read(min(_MAX_HEADER, int.from_bytes(size, "little")))
        before, found, after = header.partition(_BEFORE_DIGITS)
        if not found:
            if needs_checksum:
                raise UserError(f"{path} contains no sha256: it is damaged, or not as accel_train wrote it", _HINT)
            return
        stored, after = after[: len(_BLANK)], after[len(_BLANK) :]
        digest = hashlib.sha256(b"".join((size, before, found, _BLANK, after)))
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest().encode() != stored:
        raise UserError(f"{path} is damaged: its sha256 differs", _HINT)
