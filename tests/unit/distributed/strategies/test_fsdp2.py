"""FSDP2 shards block by block, takes shards apart and together, and rejects what is not supported."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from accel_train.distributed.strategies.fsdp2 import FSDP2, check_sharded
from accel_train.errors import UserError

CPU: Any = SimpleNamespace(device=torch.device("cpu"))


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"FSDP_VERSION": "1"}, "FSDP 1"),
        ({"FSDP_OFFLOAD_PARAMS": "true"}, "fsdp_offload_params"),
        ({"FSDP_ACTIVATION_CHECKPOINTING": "true"}, "fsdp_activation_checkpointing"),
        ({"FSDP_IGNORED_MODULES": "fc"}, "fsdp_ignored_modules"),
    ],
)
def test_unsupported_launcher_settings_are_rejected(setting: dict[str, str], error: str) -> None:
    with pytest.raises(UserError, match=error):
        FSDP2().check(2, "cuda", {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"} | setting)


def test_single_process_is_rejected() -> None:
    FSDP2().check(2, "cpu", {})
    with pytest.raises(UserError, match="FSDP2 has no effect on a single process") as rejected:
        FSDP2().check(1, "cpu", {})
    assert rejected.value.hint == "use --strategy ddp, or add --processes"


def test_every_process_stores_a_part_of_its_own() -> None:
    assert [FSDP2().part(rank) for rank in range(3)] == [0, 1, 2]
    assert FSDP2().describe(3) == "FSDP2"


@pytest.mark.parametrize("environ", [{}, {"FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "false"}])
def test_plugin_is_version_2_without_own_precision(environ: dict[str, str]) -> None:
    plugin = FSDP2().plugin(environ)
    assert plugin.fsdp_version == 2
    assert plugin.mixed_precision_policy.param_dtype is None
    assert plugin.mixed_precision_policy.reduce_dtype is None
    assert not plugin.cpu_ram_efficient_loading


def test_tensors_are_taken_apart_and_together(gloo: DeviceMesh) -> None:
    strategy, whole = FSDP2(), torch.arange(24.0).view(2, 3, 2, 2).to(memory_format=torch.channels_last)
    sharded, replicated = distribute_tensor(whole, gloo, [Shard(0)]), distribute_tensor(whole, gloo, [Replicate()])
    assert [strategy.is_replicated(tensor) for tensor in (whole, replicated, sharded)] == [True, True, False]
    for tensor in (whole, replicated, sharded):
        local, full, copy = strategy.local(tensor), strategy.full(tensor), strategy.cpu_copy(tensor.requires_grad_())
        assert not isinstance(local, DTensor)
        assert not isinstance(full, DTensor)
        assert torch.equal(local, whole)
        assert torch.equal(full, whole)
        assert isinstance(copy, DTensor) == isinstance(tensor, DTensor)
        assert not copy.requires_grad
        assert torch.equal(strategy.local(copy), whole)
        assert strategy.local(copy).is_contiguous()
        assert strategy.local(copy).data_ptr() != local.data_ptr()
    copy = strategy.cpu_copy(sharded)
    assert (copy.placements, copy.shape, copy.device_mesh) == (sharded.placements, sharded.shape, gloo)


def test_parameter_that_is_not_sharded_is_rejected(gloo: DeviceMesh) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    fully_shard(net[0], mesh=gloo)
    check_sharded(CPU, net[0], "FSDP2")
    with pytest.raises(UserError, match=r"strategy FSDP2, but the parameter 1\.weight is not sharded on cpu"):
        check_sharded(CPU, net, "FSDP2")
    with pytest.raises(UserError, match=r"0\.weight is not sharded on cuda"):
        check_sharded(SimpleNamespace(device=torch.device("cuda")), net, "FSDP2")  # type: ignore[arg-type]


def test_replaced_weights_are_used_by_the_next_forward_pass(gloo: DeviceMesh) -> None:
    strategy, net = FSDP2(), nn.Linear(2, 2, bias=False)
    fully_shard(net, mesh=gloo, reshard_after_forward=False)
    net.eval()
    with torch.no_grad():
        net(torch.ones(1, 2))  # gathers the weights, and keeps them
        strategy.weights_changed(net)
        strategy.local(net.weight).fill_(3.0)
        assert net(torch.ones(1, 2)).tolist() == [[6.0, 6.0]]


def test_fsdp2_on_a_cpu_is_rejected_where_torch_sees_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    with pytest.raises(UserError, match="works only where torch sees no GPU"):
        FSDP2().activate(CPU, FSDP2().plugin({}))
