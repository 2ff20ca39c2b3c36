"""The memory of a device by a formula, for models that cannot be run without data: from a forward pass of few images.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from accel_train.distributed.strategies.blocks import CHECKPOINTED, blocks
from accel_train.planning.memory import DeviceMemory, Line, Peak
from accel_train.planning.subject import Subject
from accel_train.planning.update import Sharing, averaged, optimizer_bytes, state_bytes, tree_vectors

_SIZES = (2, 4)


def closed_form_memory(subject: Subject, sharing: Sharing) -> DeviceMemory:
    """Return about the memory of a device that computes all layers, given what a forward pass here keeps.

    At the end of a forward pass, all activations are there; at the end of a backward pass, all gradients.
    """
    built, tuning = subject.build()
    module = built.module.train()
    kept = [_kept(subject, module, subject.images(built, size)) for size in _SIZES]
    activations = Line.through(_SIZES, (kept[0], kept[1]))
    optimizer = optimizer_bytes(subject.optimizer(module, tuning, fused=False)) // sharing.shards
    gradients = sum(p.nbytes for p in module.parameters() if p.requires_grad)
    weights = state_bytes(module) // sharing.shards
    ema = sum(t.nbytes for t in averaged(module)) // sharing.shards if subject.config.ema else 0
    is_sharded = sharing.shards > 1
    early = gradients if sharing.accumulate > 1 or (sharing.processes > 1 and not is_sharded) else 0
    gathered = 2 * max((_bytes(block) for block in blocks(module)), default=weights) if is_sharded else 0
    tree = sum(tree_vectors(sharing.blocks)) * gradients if subject.config.exact else 0
    own = weights + optimizer + ema + tree
    return DeviceMemory(
        weights=weights,
        gradients=gradients // sharing.shards,
        optimizer=optimizer,
        ema=ema,
        activations=activations,
        peak=Peak(
            (
                Line(own + early + gathered + activations.fixed, activations.per_image),
                Line(own + gradients + gathered, 0),
            )
        ),
        tree=tree,
    )


def _kept(subject: Subject, module: nn.Module, images_BCHW: Tensor) -> int:
    """Return the bytes that a forward pass keeps for the backward pass, weights excluded."""
    weights = {p.untyped_storage().data_ptr() for p in module.parameters()}
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return tensor

    handles = [
        block.register_forward_pre_hook(_noting(pack)) for block in blocks(module) if hasattr(block, CHECKPOINTED)
    ]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), subject.autocast():
        loss = subject.loss(module(images_BCHW))
    for handle in handles:
        handle.remove()
    del loss
    return sum(found.values())


def _noting(pack: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, tuple[object, ...]], None]:
    """Return a hook that counts the input of a block, which is all that activation checkpointing keeps of it."""

    def hook(block: nn.Module, inputs: tuple[object, ...]) -> None:
        for tensor in inputs:
            if isinstance(tensor, Tensor):
                pack(tensor)

    return hook


def _bytes(module: nn.Module) -> int:
    return sum(p.nbytes for p in module.parameters())
