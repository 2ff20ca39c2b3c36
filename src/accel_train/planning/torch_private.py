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

aten = torch.ops.aten
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

    def __init__(self, *, on_cpu: bool = True) -> None:
        """`on_cpu` is False if the kernels are those of a GPU."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._on_cpu = on_cpu
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
        unseen = _hidden_copies(func, args, result, on_cpu=self._on_cpu) - _written_in_place(func, result)
        if func.namespace != "aten":
            for key, reference in list(self._storages.items()):
                if (storage := reference()) is not None:
                    self._resize(key, storage.nbytes())
        self.record.append(self.now + unseen)
        return result


def _hidden_copies(func: Any, args: Any, result: Any, *, on_cpu: bool) -> int:
    """Return the bytes that a kernel takes for itself: copies in another memory format, and in oneDNN's own."""
    if func is aten.max_pool2d_with_indices_backward.default:
        gradient, *_, indices = args
        return _in_another_format(_format(gradient), (indices, result))
    if func is aten.convolution.default:
        return _in_another_format(_format(*args[:2]), args[:2])
    if func is aten.convolution_backward.default:
        copied = _in_another_format(_format(*args[1:3]), args[:3])
        of_weight = result[1]
        return copied + (2 * of_weight.nbytes if on_cpu and of_weight is not None else 0)
    return 0


def _format(*tensors: Tensor) -> torch.memory_format:
    """Return the memory format in which a kernel computes: channels_last if one of its tensors is."""
    return torch.contiguous_format if all(tensor.is_contiguous() for tensor in tensors) else torch.channels_last


def _in_another_format(memory_format: torch.memory_format, tensors: Sequence[Tensor]) -> int:
    known = memory_format is torch.contiguous_format or all(tensor.ndim == 4 for tensor in tensors)
    return sum(t.nbytes for t in tensors if known and not t.is_contiguous(memory_format=memory_format))


def _written_in_place(func: Any, result: Any) -> int:
    """Return the bytes of a sum of two gradients: without a dispatch mode, autograd adds to one of them in place."""
    in_backward = torch._C._current_graph_task_id() != -1 and not torch.is_grad_enabled()
    return result.nbytes if in_backward and func is aten.add.Tensor else 0
