"""Running statistics are the average of those of the virtual workers, however these are cut among processes."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from accel_train.training.batch_norm import RunningStatistics

BATCH = 4


class Net(nn.Module):
    """Two BatchNorms and constants of several kinds."""

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
        made: Tensor = self.untracked(self.layers(images_BCHW))
        return made


def images(update: int, worker: int) -> Tensor:
    generator = torch.Generator().manual_seed(100 * update + worker)
    return torch.randn(BATCH, 2, 5, 5, generator=generator) * (1 + worker) + update


def run(models: list[Net], updates: int, workers: int) -> None:
    """Train as so many processes would, each with a model of its own and a block of the virtual workers."""
    statistics = [RunningStatistics(model) for model in models]
    share = workers // len(models)
    for update in range(updates):
        for process, model in enumerate(models):
            for worker in range(process * share, (process + 1) * share):
                statistics[process].begin_micro_batch()
                model(images(update, worker))
                statistics[process].end_micro_batch()
        total = torch.stack([each.take_change() for each in statistics]).sum(dim=0)
        for each in statistics:
            each.end_update(total, workers)


def averaged(model: Net, updates: int, workers: int) -> dict[str, Tensor]:
    """Average the buffers of explicit copies of the model, one for each virtual worker, after every update."""
    buffers = dict(model.named_buffers())
    for update in range(updates):
        copies = [copy.deepcopy(model) for _ in range(workers)]
        for worker, each in enumerate(copies):
            each(images(update, worker))
        for name, buffer in buffers.items():
            made = [dict(each.named_buffers())[name] for each in copies]
            same = all(torch.equal(m, made[0]) for m in made)
            buffer.copy_(made[0] if same else torch.stack(made).double().mean(dim=0))
    return {name: buffer.clone() for name, buffer in buffers.items()}


def running(buffers: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: buffer for name, buffer in buffers.items() if "running" in name}


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("workers", "processes"), [(1, 1), (2, 1), (2, 2), (6, 1), (6, 2), (6, 3), (6, 6)])
def test_buffers_are_the_average_of_each_workers_own(workers: int, processes: int, momentum: float | None) -> None:
    expected = averaged(Net(momentum), 3, workers)
    models = [Net(momentum) for _ in range(processes)]
    run(models, 3, workers)
    for model in models:
        found = dict(model.named_buffers())
        assert list(found) == list(expected)
        for name, buffer in running(found).items():
            torch.testing.assert_close(buffer, expected[name], rtol=1e-6, atol=1e-6)


def test_every_process_ends_with_the_same_bits() -> None:
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


def test_without_momentum_statistics_are_the_mean_over_updates() -> None:
    model = nn.BatchNorm1d(1, momentum=None)
    statistics = RunningStatistics(model)
    for update in range(3):
        for worker in range(2):
            statistics.begin_micro_batch()
            model(torch.tensor([[1.0], [3.0]]) * (10 * update + worker))
            statistics.end_micro_batch()
        statistics.end_update(statistics.take_change(), 2)
    assert model.running_mean is not None
    assert model.running_var is not None
    assert model.running_mean.item() == pytest.approx(2 * (0 + 1 + 10 + 11 + 20 + 21) / 6)
    assert model.running_var.item() == pytest.approx(2 * (0 + 1 + 100 + 121 + 400 + 441) / 6)


def test_constants_stay_as_they_are_bit_for_bit() -> None:
    """Among them what no arithmetic leaves alone: infinities, as in attention masks, and NaN."""
    before = {name: buffer.clone() for name, buffer in Net().named_buffers() if "layers" not in name}
    model = Net()
    run([model], 4, 6)
    for name, buffer in before.items():
        found = model.get_buffer(name)
        assert (found.dtype, found.shape) == (buffer.dtype, buffer.shape)
        assert found.numpy().tobytes() == buffer.numpy().tobytes(), name


def test_frozen_statistics_stay_as_they_are() -> None:
    model = Net()
    model.layers.eval()
    run([model], 3, 6)
    assert model.get_buffer("layers.1.running_mean").tolist() == [0.0] * 3
    assert int(model.get_buffer("layers.1.num_batches_tracked")) == 0


def test_every_micro_batch_starts_from_the_updates_buffers() -> None:
    model = Net()
    statistics = RunningStatistics(model)
    before = model.get_buffer("layers.1.running_mean").clone()
    for worker in range(2):
        statistics.begin_micro_batch()
        assert torch.equal(model.get_buffer("layers.1.running_mean"), before)
        assert int(model.get_buffer("layers.1.num_batches_tracked")) == 0
        model(images(0, worker))
        statistics.end_micro_batch()


def test_a_broken_statistic_stays_visible() -> None:
    model = nn.BatchNorm1d(1)
    statistics = RunningStatistics(model)
    statistics.begin_micro_batch()
    model(torch.tensor([[math.nan], [1.0]]))
    statistics.end_micro_batch()
    statistics.end_update(statistics.take_change(), 1)
    assert model.running_mean is not None
    assert model.running_mean.isnan().all()


def test_a_model_without_buffers_has_no_change() -> None:
    model = nn.Linear(2, 2)
    statistics = RunningStatistics(model)
    statistics.begin_micro_batch()
    model(torch.zeros(1, 2))
    statistics.end_micro_batch()
    change = statistics.take_change()
    assert change.numel() == 0
    statistics.end_update(change, 1)


def test_weights_of_a_prepared_model_can_be_stored_and_loaded() -> None:
    model, fresh = Net(), Net()
    run([model], 2, 2)
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.layers(images(9, 0)), model.layers(images(9, 0)))
