"""Splits pictures into training and validation by their paths: none changes sides when others come or go.

Shape suffix: N pictures.
"""

import hashlib
import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accel_train.data.sources.base import Request
from accel_train.data.sources.names import normalized
from accel_train.errors import UserError
from accel_train.rng import hash_ids, make_key


def path_hash(path: str) -> int:
    """Return 64 signed bits of a path below the folder of its split; composed and decomposed letters are equal."""
    name = os.fsencode(path if path.isascii() else normalized(path))
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True)


def split_ids(
    request: Request, owner: str, classes: Sequence[str], labels_N: NDArray[np.int64], path_hashes_N: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return training and validation ids: a hash of the seed and its path holds a picture out.

    Each class keeps at least one picture on either side.

    Raises:
        UserError: a class of `owner`, a folder or a file of labels, has only one.
    """
    fraction = 0.2 if request.val_fraction is None else request.val_fraction
    hashes_N = hash_ids(make_key(request.seed, "split"), path_hashes_N).view(np.uint64)
    held_out_N = hashes_N < np.uint64(int(fraction * 2**64))
    by_class_N = np.lexsort((hashes_N, labels_N))
    bounds = np.searchsorted(labels_N[by_class_N], np.arange(len(classes) + 1))
    small = np.flatnonzero(np.diff(bounds) < 2)
    if len(small):
        raise UserError(
            f"the class {classes[small[0]]} of {owner} has 1 picture, too few to split", "add some, or remove it"
        )
    held_out_N[by_class_N[bounds[:-1]]] = True
    held_out_N[by_class_N[bounds[1:] - 1]] = False
    return np.flatnonzero(~held_out_N), np.flatnonzero(held_out_N)


def refuse_val_fraction(request: Request, owner: str) -> None:
    if request.val_fraction is not None:
        raise UserError(f"--val-fraction has no effect: {owner} has its own validation pictures", "leave it out")
