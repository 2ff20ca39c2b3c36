"""The simplest strategy that fits is taken, with the reason in numbers."""

import pytest

from accel_train.errors import UserError
from accel_train.planning.choice import choose
from accel_train.planning.estimate import Estimate
from accel_train.planning.memory import DeviceMemory, Line, Peak
from accel_train.planning.traffic import Cluster, Traffic
from accel_train.planning.ways import Way

FOUR = Cluster(4, 1)


def estimate(strategy: str, gigabytes: float, sent: float = 0, checkpointing: bool = False) -> Estimate:
    """Return an estimate whose peak is this at a batch size of 10."""
    memory = DeviceMemory(1, 1, 1, 0, Line(0, 1), Peak((Line(0, gigabytes * 1e8),)))
    return Estimate(Way(strategy, checkpointing), 1, (memory,), Traffic(sent, sent))


def test_ddp_is_taken_if_it_fits() -> None:
    found = choose([estimate("ddp", 8, 2e8), estimate("fsdp2", 4, 3e8)], 10, 10, "auto", FOUR)
    assert found.estimate
    assert found.estimate.way.strategy == "ddp"
    assert found.reason == "it takes 8 GB of 10 GB and sends 200 MB per update, fsdp2 300 MB"


def test_a_tenth_of_the_memory_is_kept_free() -> None:
    found = choose([estimate("ddp", 9.1), estimate("fsdp2", 4)], 10, 10, "auto", FOUR)
    assert found.estimate
    assert found.estimate.way.strategy == "fsdp2"
    assert found.reason == "it takes 4 GB of 10 GB; ddp would take 9.1 GB"


def test_sharding_comes_before_checkpointing() -> None:
    ways = [estimate("ddp", 20), estimate("ddp", 5, checkpointing=True), estimate("fsdp2", 8)]
    found = choose(ways, 10, 10, "auto", FOUR)
    assert found.estimate is ways[2]


def test_a_strategy_that_was_asked_for_is_taken() -> None:
    found = choose([estimate("ddp", 8), estimate("fsdp2", 4)], 10, 10, "fsdp2", FOUR)
    assert found.estimate
    assert found.reason == "it takes 4 GB of 10 GB, and was asked for"


def test_the_largest_batch_is_named_if_nothing_fits() -> None:
    found = choose([estimate("ddp", 30), estimate("fsdp2", 20)], 10, 10, "auto", FOUR)
    assert found.estimate is None
    assert found.reason == "--batch-size 10 needs 20 GB, more than 90 % of 10 GB: at most 4 with fsdp2"

    assert found.largest_batch == 4


def test_large_memories_are_written_in_full() -> None:
    found = choose([estimate("ddp", 1234)], 10, 1e9, "auto", Cluster(1, 1))
    assert found.reason == "it takes 1,234 GB of 1,000,000,000 GB; there is one device"


def test_a_strategy_that_is_unknown_is_not_too_large() -> None:
    unknown = Estimate(Way("pipeline", stages=2), 1, problem="the model looks at its images")
    with pytest.raises(UserError, match="--strategy pipeline cannot be planned: the model looks at its images"):
        choose([estimate("ddp", 8), unknown], 10, 10, "pipeline", FOUR)


def test_without_a_limit_the_first_way_is_taken() -> None:
    found = choose([estimate("ddp", 8)], 10, None, "auto", FOUR)
    assert found.estimate
    assert found.reason == "it takes 8 GB per device; add --gpu-memory to see what fits"
