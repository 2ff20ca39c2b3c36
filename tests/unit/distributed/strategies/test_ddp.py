"""DDP keeps tensors whole, and a single process runs the plain model."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate.utils import DistributedType
from torch import nn

from accel_train.distributed.strategies.ddp import DDP


def test_tensors_stay_whole() -> None:
    strategy, weight = DDP(), torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    assert strategy.local(weight) is weight
    assert strategy.full(weight) is weight
    assert strategy.is_replicated(weight)
    copy = strategy.cpu_copy(weight)
    assert torch.equal(copy, weight)
    assert copy.is_contiguous()
    assert not copy.requires_grad
    assert copy.data_ptr() != weight.data_ptr()


def test_rank_0_writes_checkpoints_alone() -> None:
    assert DDP().checkpoint_group(timeout=1) is None
    assert DDP().plugin({"FSDP_VERSION": "1"}) is None


@pytest.mark.parametrize("kind", [DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU])
def test_is_active_unless_accelerate_shards(kind: DistributedType) -> None:
    accelerator: Any = SimpleNamespace(distributed_type=kind)
    assert DDP().is_active(accelerator)
    accelerator.distributed_type = DistributedType.FSDP
    assert not DDP().is_active(accelerator)


def test_prepare_and_no_sync_are_accelerates() -> None:
    net, optimizer = nn.Linear(1, 1), torch.optim.SGD([nn.Parameter(torch.ones(1))])
    accelerator: Any = SimpleNamespace(
        prepare=lambda *parts: ("prepared", *parts), no_sync=lambda model: ("no_sync", model)
    )
    assert DDP().prepare(accelerator, net, optimizer, "loader") == ("prepared", net, optimizer, "loader")
    assert DDP().no_sync(accelerator, net) == ("no_sync", net)
