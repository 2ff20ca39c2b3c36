"""torch's private API does what planning needs; these tests fail when torch changes it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from accel_train.planning.torch_private import LiveBytes, fake_processes, fake_tensors, to_fake


def convolutions() -> nn.Module:
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(288, 4))
    return module.to(memory_format=torch.channels_last)


def update(module: nn.Module) -> None:
    images = torch.zeros(16, 3, 12, 12).contiguous(memory_format=torch.channels_last)
    functional.cross_entropy(module(images), torch.zeros(16, dtype=torch.int64)).backward()


class Residual(nn.Module):
    """Its weights take more than its images; gradients of both branches meet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 1)
        self.inner = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1))
        self.head = nn.Linear(64, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.inner(x)
        return self.head(x.mean((2, 3)))


def residual() -> nn.Module:
    return Residual().to(memory_format=torch.channels_last)


@pytest.mark.parametrize("make", [convolutions, residual, Residual])
def test_live_bytes_are_those_of_the_allocator(make: Callable[[], nn.Module]) -> None:
    with LiveBytes() as live:
        update(make())
    with profile(profile_memory=True) as profiled:
        update(make())
    events = [event for event in profiled.kineto_results.events() if event.name() == "[memory]"]
    taken, most = 0, 0
    for event in sorted(events, key=lambda each: each.start_ns()):
        taken += event.nbytes()
        most = max(most, taken)
    weights = sum(p.nbytes for p in make().parameters())
    assert abs(max(live.record) - most) < 0.02 * most
    assert most > 2 * weights


def test_fake_tensors_take_as_much_as_real_ones() -> None:
    with LiveBytes() as real:
        module = convolutions()
        real.record.clear()
        update(module)
    with torch.device("meta"):
        module = convolutions()
    with fake_tensors(), LiveBytes() as fake:
        to_fake(module)
        fake.record.clear()
        update(module)
    assert max(fake.record) == max(real.record)


def test_tensors_that_share_memory_count_once() -> None:
    with fake_tensors(), LiveBytes() as live:
        tensor = torch.zeros(100)
        views = tensor[:50], tensor.view(10, 10)
        assert live.now == 400
        del tensor
        assert live.now == 400
        del views
        assert live.now == 0


def test_tied_weights_stay_tied() -> None:
    module = nn.Sequential(nn.Linear(3, 3, device="meta"), nn.Linear(3, 3, device="meta"))
    module[1].weight = module[0].weight
    with fake_tensors():
        to_fake(module)
        assert module[1].weight is module[0].weight
        assert module[0].weight.device.type == "cpu"


def test_memory_that_fsdp2_frees_is_noticed() -> None:
    with torch.device("meta"):
        module = nn.Sequential(*(nn.Linear(100, 100, bias=False) for _ in range(16)))
    with fake_processes(4) as mesh, fake_tensors(), LiveBytes() as live:
        to_fake(module)
        for layer in module:
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        live.record.clear()
        module(torch.zeros(4, 100)).sum().backward()
        assert all(p.grad.to_local().shape == (25, 100) for p in module.parameters())
    shards, layer = 2 * 16 * 10_000, 40_000  # of weights and gradients; two layers and a gradient are whole at a time
    assert shards + 2 * layer < max(live.record) < shards + 5 * layer
    assert not torch.distributed.is_initialized()
