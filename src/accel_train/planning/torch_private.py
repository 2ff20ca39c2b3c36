"""Tensors without data, processes that are not there, and the bytes that tensors take: torch's private API (2.14).

Nothing else in planning uses private API; tests/unit/planning/test_torch_private.py fails when torch changes it.
"""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from accel_train.distributed.strategies.sharded import local

_PLAIN = (Tensor, nn.Parameter, FakeTensor)


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Let all new tensors have a shape and a device, but no data."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


def to_fake(module: nn.Module) -> None:
    """Replace the tensors of a module on the device `meta` by fake ones on the CPU; called within `fake_tensors`."""
    made: dict[int, Tensor] = {}

    def fake(tensor: Any) -> Any:
        if tensor is None:
            return None
        if id(tensor) not in made:  # tied weights stay tied
            empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            is_parameter = isinstance(tensor, nn.Parameter)
            made[id(tensor)] = nn.Parameter(empty, tensor.requires_grad) if is_parameter else empty
        return made[id(tensor)]

    for part in module.modules():
        for tensors in (part._parameters, part._buffers):
            tensors.update({name: fake(tensor) for name, tensor in tensors.items()})


@contextmanager
def fake_processes(count: int) -> Iterator[DeviceMesh]:
    """Let this process be the first of several; collectives return at once, and communicate nothing."""
    torch.distributed.init_process_group("fake", rank=0, world_size=count, store=FakeStore())
    try:
        yield init_device_mesh("cpu", (count,))
    finally:
        torch.distributed.destroy_process_group()


class LiveBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records after each operation how many bytes the tensors take that were made or added meanwhile.

    Tensors that share memory count once. FSDP2 frees memory by resizing it, which is no operation: sizes are asked for
    again when it communicates.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.record: list[int] = []
        self.now = 0
        """The bytes that are taken now."""
        self._sizes: dict[int, int] = {}
        self._storages: dict[int, Callable[[], torch.UntypedStorage | None]] = {}

    def add(self, tensors: Sequence[Tensor]) -> None:
        """Count tensors that are there already."""
        for tensor in tensors:
            self._add(local(tensor))

    def _add(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._storages[key] = weakref.ref(storage)
            self._resize(key, storage.nbytes())
            weakref.finalize(storage, self._forget, key)

    def _resize(self, key: int, size: int) -> None:
        self.now += size - self._sizes.get(key, 0)
        self._sizes[key] = size

    def _forget(self, key: int) -> None:
        self.now -= self._sizes.pop(key)
        del self._storages[key]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(kind not in _PLAIN for kind in types):
            return NotImplemented  # sharded tensors come first, and then their parts arrive here
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self._add(tensor)
        hidden = self._hidden_copies(func, args, result)
        if func.namespace != "aten":
            for key, reference in list(self._storages.items()):
                if (storage := reference()) is not None:
                    self._resize(key, storage.nbytes())
        self.record.append(self.now + hidden)
        return result

    @staticmethod
    def _hidden_copies(func: Any, args: Any, result: Any) -> int:
        """Return what a kernel takes for itself: pooling copies what has another memory format than its gradient."""
        if func is not torch.ops.aten.max_pool2d_with_indices_backward.default:
            return 0
        gradient, *_, indices = args
        memory_format = torch.contiguous_format if gradient.is_contiguous() else torch.channels_last
        return sum(t.nbytes for t in (indices, result) if not t.is_contiguous(memory_format=memory_format))
