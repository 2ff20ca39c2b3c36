"""Reads what a user's map-style data set tells of its images, through the `Subset`s of torch that select some."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Subset

from accel_train.data.sources.memory import MemorySource, check_memory
from accel_train.errors import UserError


def owner_of(data: Any, attribute: str) -> Any:
    """Return the data set that has an attribute: this one, or one that it selects from; None if none has."""
    if hasattr(data, attribute):
        return data
    return owner_of(data.dataset, attribute) if isinstance(data, Subset) else None


def labels_of_items(data: Any) -> Any:
    """Return the labels of the images, or None if none are told.

    Data sets of torchvision call them targets, and may change them when they are read.
    """
    changed = getattr(data, "target_transform", None) is not None
    if hasattr(data, "labels") or changed or hasattr(data, "targets"):
        return getattr(data, "labels", None if changed else getattr(data, "targets", None))
    if not isinstance(data, Subset):
        return None
    labels = labels_of_items(data.dataset)
    return None if labels is None else _selected(labels, data.indices)


def fingerprint_of(data: Any) -> Any:
    """Return the fingerprint of a data set; that of a selection differs if other images are selected."""
    if hasattr(data, "fingerprint") or not isinstance(data, Subset):
        return getattr(data, "fingerprint", None)
    whole = fingerprint_of(data.dataset)
    return None if whole is None else f"{whole} {hashlib.sha256(_ids(data.indices).tobytes()).hexdigest()[:16]}"


def selected(data: Any, name: str) -> Any:
    """Return a selection from a MemorySource as such a source, all else as it is.

    Raises:
        UserError: the source is damaged, or the selection has an image that its data set has not.
    """
    if not isinstance(data, Subset):
        return data
    try:
        whole, ids, count = selected(data.dataset, name), _ids(data.indices), len(data.dataset)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} is a Subset that cannot be read: {error}", "select by a list of indices") from None
    if wrong := ids[(ids < -count) | (ids >= count)].tolist():
        raise UserError(
            f"{name} is a Subset with the index {wrong[0]} of {count:,} images", f"give indices from 0 to {count - 1}"
        )
    if not isinstance(whole, MemorySource):
        return data
    check_memory(whole, name)
    return replace(whole, images_NCHW=whole.images_NCHW[ids], labels_N=whole.labels_N[ids])


def _selected(values: Any, indices: Sequence[int]) -> Any:
    """Return the labels of a selection.

    Raises:
        UserError: an image has none.
    """
    ids = _ids(indices)
    try:
        return values[ids] if isinstance(values, np.ndarray | Tensor) else [values[index] for index in ids]
    except (TypeError, LookupError) as error:
        what = "the labels of the data set that a Subset selects from cannot be read"
        raise UserError(f"{what}: {type(error).__name__}: {error}", "make them a list with one of each image") from None


def _ids(indices: Any) -> NDArray[np.int64]:
    ids = np.asarray(indices.cpu() if isinstance(indices, torch.Tensor) else list(indices))
    if ids.size and ids.dtype.kind not in "iu":
        raise ValueError(f"its indices are {ids.dtype}")
    return ids.astype(np.int64).reshape(-1)
