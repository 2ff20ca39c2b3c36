"""The stages of a pipeline store their own layers, and the activations of the micro-batches on their way."""

import pytest
from helpers.planning import subject

from accel_train.errors import UserError
from accel_train.planning.estimate import estimates
from accel_train.planning.replica import whole_model_memory
from accel_train.planning.stages import find_cut, in_flight, stage_memory
from accel_train.planning.traffic import Cluster
from accel_train.planning.update import Sharing

BLOCKS = {"model": "wide_resnet_16_1", "data": "synthetic:4096,3,8,8,10"}


@pytest.mark.parametrize(
    ("schedule", "stage", "most"), [("1f1b", 0, 4), ("1f1b", 3, 1), ("gpipe", 0, 8), ("gpipe", 3, 8)]
)
def test_micro_batches_on_their_way(schedule: str, stage: int, most: int) -> None:
    assert in_flight(schedule, stage, 4, 8) == most


def test_stages_have_the_weights_of_the_model() -> None:
    run = subject(2, stages=2, accumulate=4, **BLOCKS)
    cut = find_cut(run, 2, ("stage2.0",), 4)
    stages = stage_memory(run, Sharing(1, 1, (range(4),)), cut, "1f1b")
    whole = whole_model_memory(run, Sharing(1))
    assert cut.names == ("stage2.0",)
    assert sum(stage.weights for stage in stages) == whole.weights
    assert sum(stage.gradients for stage in stages) == sum(stage.optimizer for stage in stages) == whole.gradients
    assert cut.weights == [stage.gradients for stage in stages]
    assert cut.passed_on == [16 * 16 * 8 * 8 * 4]
    assert all(stage.peak.at(16) < whole.peak.at(16) + whole.activations.at(16) for stage in stages)


def test_first_stage_stores_more_micro_batches() -> None:
    run = subject(2, stages=2, accumulate=4, **BLOCKS)
    cut = find_cut(run, 2, ("stage2.0",), 4)
    first, _ = stage_memory(run, Sharing(1, 1, (range(4),)), cut, "1f1b")
    all_forward, _ = stage_memory(run, Sharing(1, 1, (range(4),)), cut, "gpipe")
    assert all_forward.activations.at(16) == 2 * first.activations.at(16)


def test_cut_is_chosen_by_cost() -> None:
    cut = find_cut(subject(2, stages=2, **BLOCKS), 2, (), 4)
    assert 0 < cut.starts[1] < len(cut.costs)
    assert min(cut.weights) > 0


def test_more_stages_than_blocks_are_refused() -> None:
    with pytest.raises(UserError, match="--pipeline-stages 8: the model has 6 blocks"):
        find_cut(subject(8, stages=8), 8, (), 1)


def test_replicas_need_a_micro_batch_each() -> None:
    found = {each.way.name: each for each in estimates(subject(2, stages=2, **BLOCKS), Cluster(2, 1))}
    assert found["ddp"].problem == "2 replicas cannot share 1 micro-batch"
    assert not found["ddp"].devices
    assert len(found["pipeline 2"].devices) == 2
