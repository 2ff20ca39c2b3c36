"""The memory of a device that computes all layers: a single process, DDP, FSDP2 and HSDP."""

from contextlib import nullcontext
from typing import Any, cast

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from accel_train.distributed.strategies.blocks import blocks
from accel_train.planning.memory import DeviceMemory
from accel_train.planning.subject import Subject
from accel_train.planning.torch_private import LiveBytes, fake_processes, fake_tensors, to_fake
from accel_train.planning.update import Sharing, Simulated, Update, device_memory


def whole_model_memory(subject: Subject, sharing: Sharing) -> DeviceMemory:
    """Return the memory of the device that stores the most."""
    sizes = (subject.plan.batch_size, 2 * subject.plan.batch_size)
    return device_memory(sizes, [_simulate(subject, sharing, size) for size in sizes])


def _simulate(subject: Subject, sharing: Sharing, batch_size: int) -> Simulated:
    """Make an update in fake tensors: two micro-batches show what any number takes."""
    is_sharded = sharing.shards > 1
    built, tuning = subject.build_without_data(torch.contiguous_format if is_sharded else torch.channels_last)
    module = built.module
    mesh_of = fake_processes(sharing.shards) if is_sharded else nullcontext()
    with mesh_of as mesh, fake_tensors(), LiveBytes(on_cpu=subject.on_cpu) as live:
        to_fake(module)
        if mesh is not None:
            _shard(module, mesh)
        buckets = sharing.processes > 1 and not is_sharded and not subject.config.exact
        update = Update(subject, sharing, module, tuning, live, fused=not is_sharded, buckets=buckets)
        passes = 1 if subject.config.exact else min(2, sharing.accumulate)
        for number in range(passes):
            is_last = number == passes - 1
            if is_last:
                update.average.over_processes()
            if is_sharded:
                cast("Any", module).set_requires_gradient_sync(is_last)
            before = live.now
            update.batch_norm.begin_micro_batch()
            with subject.autocast():
                outputs = module(subject.images(built, batch_size))
            update.batch_norm.end_micro_batch()
            loss = subject.loss(outputs)
            activations = live.now - before
            loss.backward()  # type: ignore[no-untyped-call]
            del outputs, loss
        return update.finish(activations)


def _shard(module: nn.Module, mesh: Any) -> None:
    """Shard a model as Accelerate does for distributed/strategies/fsdp2.py."""
    for block in blocks(module):
        fully_shard(block, mesh=mesh, reshard_after_forward=True, mp_policy=MixedPrecisionPolicy())
    fully_shard(module, mesh=mesh, reshard_after_forward=True, mp_policy=MixedPrecisionPolicy())
