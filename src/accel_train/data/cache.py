"""Decides where the images of a data set lie that is small enough for memory, and brings them there."""

import errno
import os
from dataclasses import replace
from typing import Any

import psutil
import torch
from torch import Tensor

from accel_train.config.options import Cache, TrainConfig
from accel_train.data.sources.base import DataSet
from accel_train.distributed import process_group
from accel_train.distributed.environment import launched_rank, local_rank, local_world_size
from accel_train.errors import UserError
from accel_train.system import shared_memory as anonymous_files

_PLACES: tuple[Cache, ...] = ("device", "ram", "off")
_DEVICE_SHARE = 0.25
"""Of the free memory of a device; the rest is for the model."""


def cached(data: DataSet, config: TrainConfig, device: torch.device, group: Any) -> tuple[DataSet, Cache]:
    """Collective: bring a data set's images where they are asked for; return it, and where they are.

    Raises:
        UserError: they cannot be there.
    """
    mine = _PLACES.index(_choose(data, config, device))
    chosen = _PLACES[max(place for (place,) in process_group.exchange(group, [mine]))]  # as the fullest device allows
    if chosen == "off":
        return data, chosen

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(device) if chosen == "device" else _shared(tensor, group)

    return replace(data, train=data.train.moved(move), val=data.val.moved(move)), chosen


def _choose(data: DataSet, config: TrainConfig, device: torch.device) -> Cache:
    """Return where the images of this process will be; auto prefers the device, then memory that is shared."""
    asked, workers = config.cache, config.workers not in ("auto", "0")
    in_memory = data.train.in_memory and data.val.in_memory
    if asked in ("device", "ram") and not in_memory:
        raise UserError(
            f"--cache {asked}: {config.data} is read picture by picture",
            "leave it out; of what accel_train pack makes, processes share what is in memory",
        )
    if asked == "device" and workers:
        raise UserError(
            f"--cache device does not work with --workers {config.workers}: they cannot use the device",
            "use --workers 0, or --cache ram",
        )
    if asked == "ram" and not anonymous_files.CAN_BE_MADE:
        raise UserError("--cache ram: this Python cannot make anonymous files", "use --cache device or off")
    if asked != "auto":
        return asked
    if in_memory and device.type != "cpu" and not workers and _size(data) <= _DEVICE_SHARE * _free_memory(device):
        return "device"
    shared = in_memory and anonymous_files.CAN_BE_MADE and local_world_size() > 1
    return "ram" if shared else "off"


def _free_memory(device: torch.device) -> int:
    return torch.cuda.mem_get_info()[0] if device.type == "cuda" else psutil.virtual_memory().available


def _size(data: DataSet) -> int:
    """Return the bytes that a data set holds in memory."""
    sizes = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.nbytes)
        return tensor

    data.train.moved(note)
    data.val.moved(note)
    return sum(sizes)


def _shared(tensor: Tensor, group: Any) -> Tensor:
    """Collective: return a tensor of which the processes of a machine have one copy together.

    It lies in an anonymous file, which the first of them makes and all find among its open ones: nothing is left
    behind, however they end.
    """
    file = error = -1
    try:
        if local_rank() == 0:
            file = anonymous_files.make("accel_train", tensor.nbytes)
            _map(os.getpid(), file, tensor).copy_(tensor)
    except (OSError, RuntimeError) as problem:  # torch's own have no number
        error = getattr(problem, "errno", None) or errno.EACCES
    offers = process_group.exchange(group, [os.getpid(), file])
    pid, number = offers[launched_rank() - local_rank()]
    try:
        tensor = _map(pid, number, tensor)
    except RuntimeError:  # another process's files cannot be seen, or there is none
        error = max(error, errno.EACCES)
    worst = max(each for (each,) in process_group.exchange(group, [error]))
    if file != -1:
        os.close(file)
    if worst != -1:
        what = f"{tensor.nbytes:,} bytes of memory among the processes of a machine"
        raise UserError(f"--cache ram: cannot share {what}: {os.strerror(worst)}", "use --cache off")
    return tensor


def _map(pid: int, file: int, like: Tensor) -> Tensor:
    """Map an open file of a process into memory as a tensor."""
    return anonymous_files.mapped(pid, file, size=like.numel(), dtype=like.dtype).view(like.shape)
