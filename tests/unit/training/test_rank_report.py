"""The report of a rank has its own means, and a hash that is equal on replicas."""

import psutil
import pytest
import torch
from torch import nn

from accel_train.distributed.strategies.ddp import DDP
from accel_train.events import EpochByRank
from accel_train.training.metrics import Sums
from accel_train.training.rank_report import RankReport

CPU = torch.device("cpu")


def network(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)


def sums_of(*losses: float, images: int = 2) -> Sums:
    sums = Sums(CPU)
    for loss in losses:
        sums.add_batch(torch.tensor(loss), torch.zeros(images, 3), torch.zeros(images, dtype=torch.int64))
    return sums


def report(model: nn.Module, sums: Sums, speed: float = 50.0) -> EpochByRank:
    return RankReport(None, DDP(), model, "cpu")(3, 66, sums, speed, 0.25)


def test_report_has_the_mean_over_own_images() -> None:
    found = report(network(), sums_of(0.25, 0.75))
    (own,) = found.ranks
    assert (found.epoch, found.update, len(found.ranks)) == (3, 66, 1)
    assert (own.device, own.loss, own.images, own.images_per_second, own.sharded) == ("cpu", 0.5, 4, 50.0, False)
    assert own.data_wait_share == 0.25
    assert 2**20 < own.memory_bytes < psutil.virtual_memory().total  # of this process


def test_images_before_a_resume_are_not_in_the_mean() -> None:
    sums = sums_of()
    sums.load([7.0, 1.0, 0.0, 100.0])  # of all processes
    assert (report(network(), sums).ranks[0].loss, report(network(), sums).ranks[0].images) == (None, 0)
    sums.add_batch(torch.tensor(0.5), torch.zeros(2, 3), torch.zeros(2, dtype=torch.int64))
    assert (report(network(), sums).ranks[0].loss, report(network(), sums).ranks[0].images) == (0.5, 2)
    assert sums.tensor.tolist() == [8.0, 3.0, 0.0, 102.0]  # of the epoch


@pytest.mark.parametrize("change", ["nothing", "weight", "statistics", "count"])
def test_hash_changes_with_weights_and_buffers(change: str) -> None:
    model, other = network(), network()
    with torch.no_grad():
        if change == "weight":
            other[0].weight[0, 0, 0, 0] += 1e-6
        if change == "statistics":
            other[1].running_var[3] *= 1.001
        if change == "count":
            other[1].num_batches_tracked += 1
    hashes = [report(net, sums_of(1.0)).ranks[0].weights for net in (model, other)]
    assert all(len(found) == 16 and int(found, 16) >= 0 for found in hashes)
    assert (hashes[0] == hashes[1]) == (change == "nothing")
