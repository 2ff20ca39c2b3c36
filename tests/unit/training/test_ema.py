"""EMA equals a hand computation, sharded or not, and the weights that it replaces come back bit-identical."""

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from accel_train.distributed.strategies.ddp import DDP
from accel_train.distributed.strategies.fsdp2 import FSDP2
from accel_train.training.batch_norm import BatchNormBuffers
from accel_train.training.ema import Ema

DECAY = 0.9


def make_net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(36, 5), nn.Linear(5, 3))
    net[3].requires_grad_(False)
    net.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
    return net.to(dtype)


def images(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(6, 2, 5, 5, dtype=dtype) + 1


def train(net: nn.Module, dtype: torch.dtype = torch.float32) -> None:
    """Do one update."""
    net.train()
    net(images(dtype)).square().mean().backward()
    torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1, weight_decay=0.1).step()
    net.zero_grad()


def unsharded(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: (t.full_tensor() if isinstance(t, DTensor) else t).clone() for name, t in tensors.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("flat_buffers", [False, True])
def test_ema_equals_hand_computation(dtype: torch.dtype, flat_buffers: bool) -> None:
    net = make_net(dtype)
    batch_norm = BatchNormBuffers(net) if flat_buffers else None
    average = Ema(net, DECAY, DDP())
    history = [unsharded(net.state_dict())]
    for _ in range(4):
        if batch_norm:
            batch_norm.begin_micro_batch()
        train(net, dtype)
        if batch_norm:
            batch_norm.end_micro_batch()
            batch_norm.end_update(batch_norm.take_change(), micro_batches=1)
        average.update()
        history.append(unsharded(net.state_dict()))
    averages = average.tensors()
    trained = {"0.weight", "0.bias", "1.weight", "1.bias", "4.weight", "4.bias"}
    assert averages.keys() == trained | {"1.running_mean", "1.running_var"}
    for name, tensor in averages.items():
        expected = history[0][name].double()
        for weights in history[1:]:
            expected = DECAY * expected + (1 - DECAY) * weights[name].double()
        assert tensor.dtype == dtype
        assert not torch.equal(history[0][name], history[-1][name])
        torch.testing.assert_close(tensor.double(), expected, rtol=1e-14 if dtype.itemsize == 8 else 1e-5, atol=1e-7)


def test_ema_of_constant_weights_is_bit_identical() -> None:
    net = make_net()
    average = Ema(net, DECAY, DDP())
    for _ in range(100):
        average.update()
    assert all(torch.equal(tensor, net.state_dict()[name]) for name, tensor in average.tensors().items())


def test_tensors_that_training_does_not_change_have_no_average() -> None:
    net = make_net()
    constant = {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    assert Ema(net, DECAY, DDP(), constant).tensors().keys() == {"4.weight", "4.bias"}


@pytest.mark.parametrize("fails", [False, True])
def test_weights_are_restored_after_model_used_averages(fails: bool) -> None:
    net = make_net()
    batch_norm = BatchNormBuffers(net)
    average = Ema(net, DECAY, DDP())
    train(net)
    batch_norm.reload()
    average.update()
    weights, averages, before = unsharded(net.state_dict()), unsharded(average.tensors()), addresses(net)
    try:
        with average.in_place_of_weights():
            assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in averages.items())
            assert not torch.equal(net.state_dict()["1.running_mean"], weights["1.running_mean"])
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert all(torch.equal(net.state_dict()[name], tensor) for name, tensor in weights.items())
    assert all(torch.equal(average.tensors()[name], tensor) for name, tensor in averages.items())
    assert addresses(net) == before


def addresses(net: nn.Module) -> list[int]:
    return [tensor.data_ptr() for tensor in net.state_dict().values()]


def test_averages_can_be_loaded_in_place() -> None:
    net = make_net()
    average = Ema(net, DECAY, DDP())
    average.tensors()["0.bias"].fill_(7)
    with average.in_place_of_weights():
        assert net[0].bias.tolist() == [7] * 4


def test_averages_are_sharded_like_weights_under_fsdp2(gloo: DeviceMesh) -> None:
    """With reshard_after_forward=False, unsharded weights of one evaluation would be used by the next."""
    plain, sharded = make_net(), make_net()
    fully_shard(sharded[0], mesh=gloo)
    fully_shard(sharded, mesh=gloo, reshard_after_forward=False)
    nets = (plain, sharded)
    averages = [Ema(plain, DECAY, DDP()), Ema(sharded, DECAY, FSDP2())]
    for update in range(3):
        for net, average in zip(nets, averages, strict=True):
            torch.manual_seed(update)
            train(net)
            average.update()
    found = averages[1].tensors()
    for name, parameter in sharded.named_parameters():
        if parameter.requires_grad:
            assert isinstance(found[name], DTensor)
            assert found[name].placements == parameter.placements
    torch.testing.assert_close(unsharded(found), unsharded(averages[0].tensors()))
    probe = images()
    raw, averaged = (evaluate(sharded, probe), evaluated_average(sharded, averages[1], probe))
    torch.testing.assert_close(raw, evaluate(plain, probe))
    torch.testing.assert_close(averaged, evaluated_average(plain, averages[0], probe))
    assert not torch.allclose(raw, averaged)
    assert torch.equal(evaluate(sharded, probe), raw)


def evaluate(net: nn.Module, probe: Tensor) -> Tensor:
    net.eval()
    with torch.no_grad():
        logits: Tensor = net(probe)
    return logits


def evaluated_average(net: nn.Module, average: Ema, probe: Tensor) -> Tensor:
    with average.in_place_of_weights():
        return evaluate(net, probe)
