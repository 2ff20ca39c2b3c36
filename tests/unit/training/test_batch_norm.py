"""BatchNorm's buffers are averaged over the micro-batches of an update, on any number of processes."""

import copy
import math
from functools import reduce

import pytest
import torch
from torch import Tensor, nn

from accel_train.training.batch_norm import BatchNormBuffers

BATCH = 4


class Net(nn.Module):
    """Two BatchNorms and several kinds of constants."""

    def __init__(self, momentum: float | None = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3, momentum=momentum), nn.ReLU(), nn.BatchNorm2d(3, momentum=momentum)
        )
        self.untracked = nn.BatchNorm2d(3, track_running_stats=False)
        self.register_buffer("mask", torch.full((3, 3), -math.inf).triu(1))
        self.register_buffer("nothing", torch.tensor([math.nan, 1 / 3, 1e30, 0.0, math.inf]))
        self.register_buffer("index", torch.arange(5))
        self.register_buffer("absent", None)

    def forward(self, images_BCHW: Tensor) -> Tensor:
        features_BCHW: Tensor = self.untracked(self.layers(images_BCHW))
        return features_BCHW


def images(update: int, micro_batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * update + micro_batch)
    return torch.randn(BATCH, 2, 5, 5, generator=generator) * (1 + micro_batch) + update


def run(models: list[Net], updates: int, micro_batches: int) -> None:
    """Train as processes would, one a model, each with its block of the micro-batches."""
    batch_norms = [BatchNormBuffers(model) for model in models]
    share = micro_batches // len(models)
    for update in range(updates):
        for process, model in enumerate(models):
            for index in range(process * share, (process + 1) * share):
                batch_norms[process].begin_micro_batch()
                model(images(update, index))
                batch_norms[process].end_micro_batch()
        total = reduce(torch.add, [each.take_change() for each in batch_norms for _ in range(share)])
        for each in batch_norms:
            each.end_update(total, micro_batches)


def averaged(model: Net, updates: int, micro_batches: int) -> dict[str, Tensor]:
    """Average the buffers of copies of the model, one a micro-batch, after every update."""
    buffers = dict(model.named_buffers())
    for update in range(updates):
        copies = [copy.deepcopy(model) for _ in range(micro_batches)]
        for index, each in enumerate(copies):
            each(images(update, index))
        for name, buffer in buffers.items():
            found = [dict(each.named_buffers())[name] for each in copies]
            same = all(torch.equal(f, found[0]) for f in found)
            buffer.copy_(found[0] if same else torch.stack(found).double().mean(dim=0))
    return {name: buffer.clone() for name, buffer in buffers.items()}


def running(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: buffer for name, buffer in buffers.items() if "running" in name}


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("micro_batches", "processes"), [(1, 1), (2, 1), (2, 2), (6, 1), (6, 2), (6, 3), (6, 6)])
def test_buffers_are_averaged_over_micro_batches(micro_batches: int, processes: int, momentum: float | None) -> None:
    expected = averaged(Net(momentum), 3, micro_batches)
    models = [Net(momentum) for _ in range(processes)]
    run(models, 3, micro_batches)
    for model in models:
        found = dict(model.named_buffers())
        assert list(found) == list(expected)
        for name, buffer in running(found).items():
            torch.testing.assert_close(buffer, expected[name], rtol=1e-6, atol=1e-6)


def test_buffers_are_bit_identical_on_all_processes() -> None:
    models = [Net() for _ in range(3)]
    run(models, 3, 6)
    for model in models[1:]:
        for name, buffer in running(dict(model.named_buffers())).items():
            assert torch.equal(buffer, models[0].get_buffer(name))


@pytest.mark.parametrize("processes", [1, 2])
def test_counters_count_updates(processes: int) -> None:
    models = [Net() for _ in range(processes)]
    run(models, 5, 6)
    for model in models:
        counters = {n: int(b) for n, b in model.named_buffers() if n.endswith("num_batches_tracked")}
        assert counters == {"layers.1.num_batches_tracked": 5, "layers.3.num_batches_tracked": 5}


def test_without_momentum_buffers_are_means_over_updates() -> None:
    model = nn.BatchNorm1d(1, momentum=None)
    batch_norm = BatchNormBuffers(model)
    for update in range(3):
        for index in range(2):
            batch_norm.begin_micro_batch()
            model(torch.tensor([[1.0], [3.0]]) * (10 * update + index))
            batch_norm.end_micro_batch()
        batch_norm.end_update(batch_norm.take_change() + batch_norm.take_change(), 2)
    assert model.running_mean is not None
    assert model.running_var is not None
    assert model.running_mean.item() == pytest.approx(2 * (0 + 1 + 10 + 11 + 20 + 21) / 6)
    assert model.running_var.item() == pytest.approx(2 * (0 + 1 + 100 + 121 + 400 + 441) / 6)


def test_constant_buffers_stay_bit_identical() -> None:
    """Including infinities, as in attention masks, and NaN, which arithmetic would change."""
    before = {name: buffer.clone() for name, buffer in Net().named_buffers() if "layers" not in name}
    model = Net()
    run([model], 4, 6)
    for name, buffer in before.items():
        found = model.get_buffer(name)
        assert (found.dtype, found.shape) == (buffer.dtype, buffer.shape)
        assert found.numpy().tobytes() == buffer.numpy().tobytes(), name


def test_buffers_of_frozen_batch_norm_do_not_change() -> None:
    model = Net()
    model.layers.eval()
    run([model], 3, 6)
    assert model.get_buffer("layers.1.running_mean").tolist() == [0.0] * 3
    assert int(model.get_buffer("layers.1.num_batches_tracked")) == 0


def test_each_micro_batch_starts_from_buffers_at_start_of_update() -> None:
    model = Net()
    batch_norm = BatchNormBuffers(model)
    before = model.get_buffer("layers.1.running_mean").clone()
    for index in range(2):
        batch_norm.begin_micro_batch()
        assert torch.equal(model.get_buffer("layers.1.running_mean"), before)
        assert int(model.get_buffer("layers.1.num_batches_tracked")) == 0
        model(images(0, index))
        batch_norm.end_micro_batch()


def test_nan_statistic_is_not_hidden() -> None:
    model = nn.BatchNorm1d(1)
    batch_norm = BatchNormBuffers(model)
    batch_norm.begin_micro_batch()
    model(torch.tensor([[math.nan], [1.0]]))
    batch_norm.end_micro_batch()
    batch_norm.end_update(batch_norm.take_change(), 1)
    assert model.running_mean is not None
    assert model.running_mean.isnan().all()


def test_model_without_buffers_has_no_change() -> None:
    model = nn.Linear(2, 2)
    batch_norm = BatchNormBuffers(model)
    batch_norm.begin_micro_batch()
    model(torch.zeros(1, 2))
    batch_norm.end_micro_batch()
    change = batch_norm.take_change()
    assert change.numel() == 0
    batch_norm.end_update(change, 1)


def test_state_dict_of_flattened_buffers_can_be_loaded() -> None:
    model, fresh = Net(), Net()
    run([model], 2, 2)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.layers(images(9, 0)), model.layers(images(9, 0)))


@pytest.mark.parametrize("waiting", [1, 2, 4])
def test_backward_passes_may_wait_for_later_forward_passes(waiting: int) -> None:
    """As in a pipeline; changes are taken in the order of the micro-batches."""

    def gradients(waiting: int) -> tuple[list[Tensor], list[Tensor]]:
        model = Net().layers
        batch_norm = BatchNormBuffers(model)
        losses: list[Tensor] = []
        for index in range(4):
            batch_norm.begin_micro_batch()
            losses.append(model(images(0, index)).square().mean())
            batch_norm.end_micro_batch()
            if len(losses) == waiting:
                losses.pop(0).backward()
        for loss in losses:
            loss.backward()
        found = [p.grad for p in model.parameters() if p.grad is not None]
        return found, [batch_norm.take_change() for _ in range(4)]

    for found, expected in zip(gradients(waiting), gradients(1), strict=True):
        assert found
        assert all(map(torch.equal, found, expected))


def test_recomputed_forward_passes_do_not_count() -> None:
    """As by activation checkpointing, whose backward pass repeats the forward pass."""
    once, twice = Net(), Net()
    for model in (once, twice):
        batch_norm = BatchNormBuffers(model)
        for index in range(2):
            batch_norm.begin_micro_batch()
            model(images(0, index))
            batch_norm.end_micro_batch()
            if model is twice:
                model(images(0, index))
        batch_norm.end_update(batch_norm.take_change() + batch_norm.take_change(), 2)
    for name, buffer in running(dict(once.named_buffers())).items():
        assert torch.equal(buffer, twice.get_buffer(name))
    assert int(once.get_buffer("layers.1.num_batches_tracked")) == 1
    assert int(twice.get_buffer("layers.1.num_batches_tracked")) == 1


def test_constant_indices_may_be_used_by_several_waiting_backward_passes() -> None:
    class Indexed(nn.Module):
        """Looks up learned values, as Swin does its position bias."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(3))
            self.register_buffer("index", torch.tensor([2, 0, 0]))

        def forward(self) -> Tensor:
            return self.table[self.index].sum()

    model = Indexed()
    buffers = BatchNormBuffers(model)
    losses = []
    for _ in range(2):
        buffers.begin_micro_batch()
        losses.append(model())
        buffers.end_micro_batch()
    for loss in losses:
        loss.backward()
    assert model.table.grad is not None
    assert model.table.grad.tolist() == [4.0, 0.0, 2.0]


def test_statistics_in_evaluation_mode_stay_bit_identical() -> None:
    """A sum with 0.0 would make 0.0 of -0.0."""
    model = Net()
    with torch.no_grad():
        for norm in (model.layers[1], model.layers[3]):
            norm.running_mean.copy_(torch.tensor([-0.0, 0.0, 1 / 3]))
            norm.eval()
    before = {name: buffer.numpy().tobytes() for name, buffer in model.named_buffers()}
    run([model, copy.deepcopy(model)], updates=3, micro_batches=4)
    assert {name: buffer.numpy().tobytes() for name, buffer in model.named_buffers()} == before
