"""How loader workers hand batches over: in shared memory that is used again and again.

Torch by itself makes new shared memory for each batch, of which both processes map and give back the pages, and a
connection that brings its file.
"""

import os
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import get_worker_info

from accel_train.errors import LocalError
from accel_train.system import shared_memory as anonymous_files

_HELD = 2
"""Batches that the trainer may look at: the one that it was given, and the next, which Accelerate keeps ready."""
_NUMBERS = count()
_ALIVE: "WeakValueDictionary[int, Handover]" = WeakValueDictionary()
"""In the process that trains, for batches to find the memory that they lie in."""


class Batch(NamedTuple):
    """Images as read, before anything is done to them on the device."""

    images_BCHW: Tensor
    labels_B: Tensor
    tickets_B: Tensor
    """In training epoch × images + image id; in evaluation the image id, or PADDING."""


class Handover:
    """The shared memory of a loader's workers; a `collate_fn`, which workers call with each batch they have read."""

    def __init__(self, batches_ahead: int) -> None:
        """Make memory, once it is used, for so many batches of each worker that were read before they are needed."""
        self._number = next(_NUMBERS)
        self._slots = batches_ahead + _HELD
        self._sent = 0
        self._images: dict[tuple[int, int], Tensor] = {}
        """By worker and slot: those that this process writes, or that it has been told of."""
        _ALIVE[self._number] = self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_images": {}}

    def __call__(self, batch: Any) -> Any:
        """Return what arrives in the process that trains as the Batch, or the LocalError, that was read."""
        worker = get_worker_info()
        if worker is None or isinstance(batch, LocalError):
            return batch
        place = worker.id, self._sent % self._slots
        self._sent += 1
        images_BCHW = batch.images_BCHW.detach()
        like = torch.empty_like(images_BCHW, device="meta")  # dense, which a user's images need not be
        shared, new = self._images.get(place), None
        if shared is None or not _alike(shared, like):
            try:
                shared, new = _make_shared(like)
            except (OSError, RuntimeError) as error:  # torch's own is of the second kind
                what = f"{like.nbytes:,} bytes of memory for a batch of a loader worker"
                return LocalError(f"cannot get {what}: {error}", "use fewer --workers, or a smaller batch")
            self._images[place] = shared
        shared.copy_(images_BCHW)
        return _Sent(self._number, place, new, batch.labels_B.numpy(), batch.tickets_B.numpy())

    def find(self, place: tuple[int, int], new: "Tensor | _File | None") -> Tensor:
        """Return the memory at a place; when it is first used, it comes along."""
        if new is not None:
            self._images[place] = new.mapped() if isinstance(new, _File) else new
        return self._images[place]


def _alike(one: Tensor, other: Tensor) -> bool:
    return (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


class _File(NamedTuple):
    """An open file of a process, and the tensor that lies in it."""

    pid: int
    number: int
    size: int
    """Elements."""
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]

    def mapped(self) -> Tensor:
        flat = anonymous_files.mapped(self.pid, self.number, size=self.size, dtype=self.dtype)
        return flat.as_strided(self.shape, self.stride)


def _make_shared(like: Tensor) -> tuple[Tensor, Tensor | _File]:
    """Return memory for a tensor, and what brings it to another process.

    On Linux it is a file without a name, which the worker holds open: torch would take memory from /dev/shm, which in
    a container has 64 MB. Some builds of Python cannot make such files.
    """
    if not anonymous_files.CAN_BE_MADE:
        shared: Tensor = torch.empty_like(like, device="cpu").share_memory_()  # type: ignore[no-untyped-call]
        return shared, shared
    number = anonymous_files.make("loader_batch", like.nbytes)
    file = _File(os.getpid(), number, like.numel(), like.dtype, like.shape, like.stride())
    return file.mapped(), file


class _Sent(NamedTuple):
    """A batch on its way, which arrives as a Batch."""

    handover: int
    place: tuple[int, int]
    new: Tensor | _File | None
    labels_B: NDArray[np.int64]
    tickets_B: NDArray[np.int64]

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, tuple(self)


def _arrived(
    handover: int,
    place: tuple[int, int],
    new: Tensor | _File | None,
    labels_B: NDArray[np.int64],
    tickets_B: NDArray[np.int64],
) -> Batch:
    images_BCHW = _ALIVE[handover].find(place, new)
    return Batch(images_BCHW, torch.from_numpy(labels_B), torch.from_numpy(tickets_B))
