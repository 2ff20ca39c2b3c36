"""Moves in-memory images to the device, or to RAM that a machine's processes share.

Where they are never changes a result.
"""

import errno
import os
from dataclasses import replace
from typing import Any

import psutil
import torch
from torch import Tensor

from accel_train.config.fields import Cache
from accel_train.data.sources.base import DataSet
from accel_train.data.sources.memory import in_memory, move
from accel_train.distributed import process_group
from accel_train.distributed.environment import launched_rank, local_rank, local_world_size
from accel_train.errors import UserError
from accel_train.system import shared_memory
from accel_train.system.os_errors import number_of

_PLACES: tuple[Cache, ...] = ("device", "ram", "off")
_DEVICE_SHARE = 0.25
"""Of a device's free memory; the rest is for the model."""


def cached(data: DataSet, *, asked: Cache, workers: str, device: torch.device, group: Any) -> tuple[DataSet, Cache]:
    """Collective: move a data set's images to the place asked for; return the data set and the place.

    Raises:
        UserError: the images cannot be there.
    """
    local_place = _PLACES.index(_choose(data, asked, workers, device))
    place = _PLACES[max(found for (found,) in process_group.exchange(group, [local_place]))]  # the fullest device's
    if place == "off":
        return data, place

    def move_tensor(tensor: Tensor) -> Tensor:
        return tensor.to(device) if place == "device" else _shared(tensor, group)

    return replace(data, train=move(data.train, move_tensor), val=move(data.val, move_tensor)), place


def _choose(data: DataSet, asked: Cache, workers: str, device: torch.device) -> Cache:
    """Return the place for this process's images; auto prefers the device, then shared RAM."""
    held, has_workers = in_memory(data.train) and in_memory(data.val), workers not in ("auto", "0")
    if asked in ("device", "ram") and not held:
        raise UserError(
            f"--cache {asked} needs images in memory, but those {data.origin} are read one by one",
            "leave it out; processes share the page cache of a folder packed with accel_train pack",
        )
    if asked == "device" and has_workers:
        raise UserError(
            f"--cache device does not work with --workers {workers}: workers cannot read from the device",
            "use --workers 0, or --cache ram",
        )
    if asked == "ram" and not shared_memory.CAN_BE_MADE:
        raise UserError("--cache ram: this Python cannot make anonymous files", "use --cache device or off")
    if asked != "auto":
        return asked
    if held and device.type != "cpu" and not has_workers and _size(data) <= _DEVICE_SHARE * _free_memory(device):
        return "device"
    return "ram" if held and shared_memory.CAN_BE_MADE and local_world_size() > 1 else "off"


def _free_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info()[0] if device.type == "cuda" else psutil.virtual_memory().available


def _size(data: DataSet) -> int:
    """Return the bytes of a data set in memory."""
    sizes = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    move(data.train, note)
    move(data.val, note)
    return sum(sizes)


def _shared(tensor: Tensor, group: Any) -> Tensor:
    """Collective: copy a tensor to memory that all processes of a machine share, and return it there.

    The memory is an anonymous file that local rank 0 makes and the others open through /proc. Nothing is left behind,
    however the processes end.
    """
    file = error = -1
    try:
        if local_rank() == 0:
            file = shared_memory.make("accel_train", tensor.nbytes)
            _map(os.getpid(), file, tensor).copy_(tensor)
    except (OSError, RuntimeError) as problem:
        error = number_of(problem) or errno.EACCES
    offers = process_group.exchange(group, [os.getpid(), file])
    pid, number = offers[launched_rank() - local_rank()]
    try:
        tensor = _map(pid, number, tensor)
    except RuntimeError as problem:  # there is no file, the other process's files are not visible, or memory is full
        error = max(error, number_of(problem) or errno.EACCES)
    worst = max(each for (each,) in process_group.exchange(group, [error]))
    if file != -1:
        os.close(file)
    if worst != -1:
        what = f"{tensor.nbytes:,} bytes of memory among the processes of a machine"
        raise UserError(f"--cache ram: cannot share {what}: {os.strerror(worst)}", "use --cache off")
    return tensor


def _map(pid: int, file: int, like: Tensor) -> Tensor:
    """Map an open file of a process into memory as a tensor."""
    return shared_memory.mapped(pid, file, size=like.numel(), dtype=like.dtype).view(like.shape)
