"""What devices send in an update, by strategy."""

import pytest
from helpers.planning import subject

from accel_train.planning.estimate import sent_sizes
from accel_train.planning.traffic import Cluster, SentSizes, Traffic, ddp_traffic, pipeline_traffic, sharded_traffic

ONE, TWO = Cluster(8, 1), Cluster(8, 2)


def test_ddp_all_reduces_gradients() -> None:
    assert ddp_traffic(800, ONE) == Traffic(1400, 1400)
    assert ddp_traffic(800, TWO) == Traffic(1500, 1500)
    assert ddp_traffic(800, Cluster(1, 1)) == Traffic(0, 0)


@pytest.mark.parametrize(("accumulate", "sent"), [(1, 2100), (2, 3500)])
def test_fsdp2_gathers_weights_for_each_pass(accumulate: int, sent: float) -> None:
    assert sharded_traffic(SentSizes(800, 800), ONE, shards=8, accumulate=accumulate).by_device == sent


def test_matrices_are_gathered_once_per_update() -> None:
    plain, muon = (sharded_traffic(SentSizes(800, 800, size), ONE, shards=8, accumulate=2) for size in (0, 400))
    assert muon.by_device - plain.by_device == 350


def test_muon_gathers_its_matrices() -> None:
    sgd, muon = (sent_sizes(subject(model="cnn", optimizer=name)) for name in ("sgd", "muon"))
    assert (sgd.weights, sgd.gradients, sgd.matrices) == (muon.weights, muon.gradients, 0)
    assert 0 < muon.matrices < muon.gradients


def test_hsdp_sends_only_gradients_over_the_network() -> None:
    found = sharded_traffic(SentSizes(800, 800), TWO, shards=8, accumulate=1)
    assert found == Traffic(by_device=2100 + 100, over_link=800)  # 2 × 1/2 of a shard of 100, from 8 devices


def test_fsdp2_over_machines_sends_all_over_the_network() -> None:
    assert sharded_traffic(SentSizes(1600, 1600), TWO, shards=16, accumulate=1) == Traffic(4500, 4500)


def test_pipeline_sends_activations_and_averages_stages() -> None:
    found = pipeline_traffic([100, 300], [50], Cluster(4, 1), accumulate=3)
    assert found == Traffic(3 * 50 + 300, 3 * 50 + 300)
    across = pipeline_traffic([100, 300], [50], Cluster(1, 2), accumulate=3)
    assert across.over_link == 3 * 50
