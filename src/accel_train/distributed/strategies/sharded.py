"""Tensors that may be sharded: the part that this process stores, and what needs all parts."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor


def local(tensor: Tensor) -> Tensor:
    """Return the part of a tensor that this process stores."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def local_parts(tensors: Iterable[Tensor | None]) -> list[Tensor]:
    """Return the parts of tensors that this process stores, without those that are None."""
    return [local(tensor) for tensor in tensors if tensor is not None]


def full(tensor: Tensor) -> Tensor:
    """Collective: return a tensor unsharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_part(whole: Tensor, like: Tensor) -> Tensor:
    """Return this process's part of a tensor that all have, sharded as `like` is."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None).to_local()


def norms(parts: Sequence[Tensor], like: Tensor) -> Tensor:
    """Collective: return the norms of tensors, given this process's parts of them, sharded as `like` is."""
    found = torch.stack(torch._foreach_norm(list(parts)))
    if not isinstance(like, DTensor):
        return found
    squares = found.square()
    for dimension, placement in enumerate(like.placements):
        if placement.is_shard():
            torch.distributed.all_reduce(squares, group=like.device_mesh.get_group(dimension))
    return squares.sqrt()
