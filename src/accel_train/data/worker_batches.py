"""Transfers batches from loader workers through shared memory that is reused.

torch by itself allocates shared memory for each batch: both processes map and unmap its pages, and a socket passes its
file descriptor. Here the pipe transfers the place only, in less than PIPE_BUF bytes, which are written at once. If a
worker were killed in the middle of a message, the training process would wait for the rest of it.

Shape suffixes: B images, C channels, H height, W width.
"""

import os
from itertools import count
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from accel_train.errors import LocalError
from accel_train.system import shared_memory

_HELD = 2
"""Batches in use by the training process: the current one, and the next, which Accelerate fetches in advance."""
_NUMBERS = count()
_TRANSFERS: "WeakValueDictionary[int, SharedMemoryTransfer]" = WeakValueDictionary()
"""By number; in the training process, an arriving batch finds its memory through its transfer."""


class Batch(NamedTuple):
    """Images as read, before the device augments and normalises them."""

    images_BCHW: Tensor
    labels_B: Tensor
    sample_indices_B: Tensor
    """pass × images + image id in training (see sampler.py); the image id, or PADDING, in evaluation."""


class SharedMemoryTransfer:
    """The `collate_fn` of a loader: workers call it with each batch that they have read."""

    def __init__(self, prefetched: int) -> None:
        """Use enough memory for `prefetched` batches per worker, besides those in use; allocate it on first use."""
        self._number = next(_NUMBERS)
        self._slots = prefetched + _HELD
        self._sent = 0
        self._memory: dict[tuple[int, int], tuple[Tensor, ...]] = {}
        """By worker and slot, a batch; in a worker its own, in the training process those that have arrived."""
        self._files: dict[tuple[int, int], _New] = {}
        """Of a worker, by slot."""
        _TRANSFERS[self._number] = self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_memory": {}, "_files": {}}

    def __call__(self, batch: Any) -> Any:
        """Return an object that arrives in the training process as the Batch or LocalError given."""
        worker = get_worker_info()
        if worker is None or isinstance(batch, LocalError):
            return batch
        slot = worker.id, self._sent % self._slots
        self._sent += 1
        tensors = [tensor.detach() for tensor in batch]
        likes = [torch.empty_like(tensor, device="meta") for tensor in tensors]  # dense; a user's images may not be
        shared, new = self._memory.get(slot), None
        if shared is None or not all(map(_same_layout, shared, likes)):
            try:
                shared, new = zip(*map(_make_shared, likes), strict=True)
            except (OSError, RuntimeError) as error:  # torch raises RuntimeError
                what = f"{sum(like.nbytes for like in likes):,} bytes of memory for a batch of a loader worker"
                return LocalError(f"cannot get {what}: {error}", "use fewer --workers, or a smaller batch")
            self._close(slot)
            self._memory[slot], self._files[slot] = shared, new
        for memory, tensor in zip(shared, tensors, strict=True):
            memory.copy_(tensor)
        return _SentBatch(self._number, slot, new)

    def _close(self, slot: tuple[int, int]) -> None:
        """Close the files of a slot that is replaced; the training process has mapped them."""
        for file in self._files.get(slot, ()):
            if isinstance(file, _File):
                os.close(file.descriptor)

    def find(self, slot: tuple[int, int], new: "_New | None") -> tuple[Tensor, ...]:
        """Return the memory of a slot, which is `new` if the slot is used for the first time or has been replaced."""
        if new is not None:
            self._memory[slot] = tuple(one.mapped() if isinstance(one, _File) else one for one in new)
        return self._memory[slot]


def _same_layout(one: Tensor, other: Tensor) -> bool:
    return (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())


class _File(NamedTuple):
    """An open file of a process, and the layout of the tensor in it."""

    pid: int
    descriptor: int
    size: int
    """Elements."""
    dtype: torch.dtype
    shape: torch.Size
    stride: tuple[int, ...]

    def mapped(self) -> Tensor:
        """Map the file into this process; if the worker has just ended, raise what torch raises once it notices."""
        try:
            flat = shared_memory.mapped(self.pid, self.descriptor, size=self.size, dtype=self.dtype)
        except RuntimeError as error:
            if not shared_memory.is_lost(error, self.pid):
                raise
            raise RuntimeError(f"DataLoader worker (pid {self.pid}) exited unexpectedly") from error
        return flat.as_strided(self.shape, self.stride)


def _make_shared(like: Tensor) -> tuple[Tensor, Tensor | _File]:
    """Allocate shared memory for a tensor; return it, and the object that maps it in another process.

    On Linux it is an anonymous file that the worker keeps open: torch would take memory from /dev/shm, which has 64 MB
    in a container. Some builds of Python cannot make such files.
    """
    if not shared_memory.CAN_BE_MADE:
        shared: Tensor = torch.empty_like(like, device="cpu").share_memory_()  # type: ignore[no-untyped-call]
        return shared, shared
    descriptor = shared_memory.make("loader_batch", like.nbytes)
    file = _File(os.getpid(), descriptor, like.numel(), like.dtype, like.shape, like.stride())
    return file.mapped(), file


_New = tuple[Tensor | _File, ...]
"""The tensors of a batch, in memory that is sent for the first time."""


class _SentBatch(NamedTuple):
    """A batch in transfer; unpickling it returns a Batch."""

    transfer: int
    slot: tuple[int, int]
    new: _New | None

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, tuple(self)


def _receive(transfer: int, slot: tuple[int, int], new: _New | None) -> Batch:
    images_BCHW, labels_B, sample_indices_B = _TRANSFERS[transfer].find(slot, new)
    return Batch(images_BCHW, labels_B.clone(), sample_indices_B.clone())  # these the loop keeps for longer
