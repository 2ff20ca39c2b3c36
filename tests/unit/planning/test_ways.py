"""A way that was asked for is checked as a run checks it; of the others, those that are possible are planned."""

from typing import Any

import pytest
from helpers.planning import subject

from accel_train.errors import UserError
from accel_train.planning.estimate import estimates
from accel_train.planning.traffic import Cluster
from accel_train.planning.ways import stages_asked, ways


def names(cluster: Cluster, **options: Any) -> list[str]:
    return [way.name for way in ways(subject(**options).config, cluster) if not way.checkpointing]


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (Cluster(1, 1), ["ddp"]),
        (Cluster(2, 1), ["ddp", "fsdp2", "pipeline 2"]),
        (Cluster(3, 1), ["ddp", "fsdp2"]),
        (Cluster(9, 1), ["ddp", "fsdp2", "hsdp 3"]),
        (Cluster(8, 4), ["ddp", "fsdp2", "hsdp 8", "pipeline 2"]),
        (Cluster(1, 4), ["ddp", "fsdp2", "hsdp 2", "pipeline 2"]),
    ],
    ids=lambda value: f"{value.nodes}x{value.gpus}" if isinstance(value, Cluster) else "",
)
def test_ways_that_are_possible(cluster: Cluster, expected: list[str]) -> None:
    assert names(cluster) == expected


def test_sizes_that_were_given_are_shown() -> None:
    assert names(Cluster(4, 1), shard_size=3, pipeline_stages=9) == ["ddp", "fsdp2", "hsdp 3", "pipeline 9"]
    found = {each.way.name: each for each in estimates(subject(4, shard_size=3), Cluster(4, 1))}
    assert found["hsdp 3"].problem == "--shard-size 3 must divide the 4 processes"
    assert not found["hsdp 3"].devices


@pytest.mark.parametrize(
    ("options", "gpus", "message"),
    [
        ({"strategy": "hsdp"}, 3, "--shard-size 2 must divide the 3 processes"),
        ({"strategy": "hsdp", "shard_size": 3}, 4, "--shard-size 3 must divide the 4 processes"),
        ({"strategy": "pipeline"}, 1, "Pipeline has no effect on a single process"),
        ({"strategy": "pipeline", "pipeline_stages": 3}, 4, "--pipeline-stages 3 must divide the 4 processes"),
        ({"strategy": "fsdp2"}, 1, "FSDP2 has no effect on a single process"),
        ({"strategy": "fsdp2", "exact": True}, 2, "--exact does not work with FSDP2 yet"),
        ({"strategy": "dp"}, 2, "--strategy dp is not planned: it is slower than DDP"),
    ],
    ids=("hsdp_prime", "hsdp_3", "pipeline_1", "pipeline_3", "fsdp2_1", "fsdp2_exact", "dp"),
)
def test_impossible_strategies_are_refused(options: dict[str, Any], gpus: int, message: str) -> None:
    with pytest.raises(UserError) as refused:
        stages_asked(subject(**options).config, Cluster(gpus, 1))
    assert refused.value.message == message


def test_exact_is_not_estimated_where_it_does_not_work() -> None:
    found = {each.way.name: each for each in estimates(subject(2, exact=True), Cluster(2, 1))}
    assert found["ddp"].devices
    assert found["fsdp2"].problem == "--exact does not work with FSDP2 yet"
    assert not found["fsdp2"].devices


def test_a_model_that_is_too_short_for_the_pipeline_asked_for() -> None:
    run = subject(8, stages=8, strategy="pipeline", pipeline_stages=8)
    with pytest.raises(UserError, match="--pipeline-stages 8: the model has 6 blocks"):
        list(estimates(run, Cluster(8, 1)))
