"""What devices send in an update, by strategy."""

import pytest

from accel_train.planning.traffic import Cluster, Traffic, ddp_traffic, pipeline_traffic, sharded_traffic

ONE, TWO = Cluster(8, 1), Cluster(8, 2)


def test_ddp_all_reduces_gradients() -> None:
    assert ddp_traffic(800, ONE) == Traffic(1400, 1400)
    assert ddp_traffic(800, TWO) == Traffic(1500, 1500)
    assert ddp_traffic(800, Cluster(1, 1)) == Traffic(0, 0)


@pytest.mark.parametrize(("accumulate", "sent"), [(1, 2100), (2, 3500)])
def test_fsdp2_gathers_weights_for_each_pass(accumulate: int, sent: float) -> None:
    assert sharded_traffic(800, 800, ONE, shards=8, accumulate=accumulate).by_device == sent


def test_hsdp_sends_only_gradients_over_the_network() -> None:
    found = sharded_traffic(800, 800, TWO, shards=8, accumulate=1)
    assert found == Traffic(by_device=2100 + 100, over_link=800)  # 2 × 1/2 of a shard of 100, from 8 devices


def test_fsdp2_over_machines_sends_all_over_the_network() -> None:
    assert sharded_traffic(1600, 1600, TWO, shards=16, accumulate=1) == Traffic(4500, 4500)


def test_pipeline_sends_activations_and_averages_stages() -> None:
    found = pipeline_traffic([100, 300], [50], Cluster(4, 1), accumulate=3)
    assert found == Traffic(3 * 50 + 300, 3 * 50 + 300)
    across = pipeline_traffic([100, 300], [50], Cluster(1, 2), accumulate=3)
    assert across.over_link == 3 * 50
