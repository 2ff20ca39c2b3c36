"""The memory of a device that computes all layers is that of its tensors."""

import pytest
from helpers.planning import subject

from accel_train.planning.replica import whole_model_memory
from accel_train.planning.update import Sharing, tree_vectors

PARAMETERS = 64 * 256 + 256 + 256 * 256 + 256 + 256 * 10 + 10
DEEP = {"model": "wide_resnet_16_1", "data": "synthetic:4096,3,8,8,10"}


@pytest.mark.parametrize(("optimizer", "states"), [("sgd", 1), ("adamw", 2)])
@pytest.mark.parametrize(("precision", "width"), [("fp32", 4), ("bf16", 4), ("fp64", 8)])
def test_parts_are_exact(optimizer: str, states: int, precision: str, width: int) -> None:
    found = whole_model_memory(subject(optimizer=optimizer, precision=precision, ema=1000), Sharing(1))
    counters = 6 * 4 * (optimizer == "adamw")  # of the updates of each parameter
    weights = width * PARAMETERS
    assert (found.weights, found.gradients, found.ema) == (weights, weights, weights)
    assert found.optimizer == states * weights + counters
    assert found.saved == 2 * weights + found.optimizer


def test_activations_and_peak_grow_with_the_batch() -> None:
    found = whole_model_memory(subject(), Sharing(1))
    assert found.activations.per_image > 4 * (64 + 256 + 256)  # the images, and the output of both hidden layers
    assert found.peak.at(1024) > found.peak.at(16) > 2 * found.weights
    assert found.peak.at(1024) > 1024 * found.activations.per_image


def test_ddp_has_buckets_beside_accumulated_gradients() -> None:
    alone = whole_model_memory(subject(), Sharing(1))
    ddp = whole_model_memory(subject(2), Sharing(2))
    accumulating = whole_model_memory(subject(2, accumulate=4), Sharing(2, 1, (range(4), range(4, 8))))
    assert ddp.gradients == alone.gradients
    more = (ddp.peak.at(4096) - alone.peak.at(4096)) / alone.gradients
    assert 0.9 < more <= 1  # the peak is in the backward pass, which has made the head's gradient
    assert ddp.peak.at(4096) < accumulating.peak.at(4096) <= ddp.peak.at(4096) + alone.gradients


def test_fsdp2_stores_shards() -> None:
    ddp = whole_model_memory(subject(4, **DEEP), Sharing(4))
    fsdp2 = whole_model_memory(subject(4, **DEEP), Sharing(4, 4))
    assert fsdp2.gradients == pytest.approx(ddp.gradients / 4, rel=0.05)  # dimensions of 10 are not divided equally
    assert fsdp2.optimizer == fsdp2.gradients
    assert fsdp2.peak.at(16) < ddp.peak.at(16)


def test_activation_checkpointing_keeps_inputs_of_blocks() -> None:
    plain = whole_model_memory(subject(**DEEP), Sharing(1))
    checkpointed = whole_model_memory(subject(checkpointing=True, **DEEP), Sharing(1))
    assert checkpointed.activations.at(64) < 0.5 * plain.activations.at(64)
    assert checkpointed.peak.at(64) < plain.peak.at(64)
    assert checkpointed.weights == plain.weights


def test_exact_holds_sums_of_gradients() -> None:
    blocks = (range(8),)
    plain = whole_model_memory(subject(accumulate=8), Sharing(1, 1, blocks))
    exact = whole_model_memory(subject(accumulate=8, exact=True), Sharing(1, 1, blocks))
    assert exact.tree == 4 * plain.gradients  # of 4, 2 and 1 micro-batches, and the next one
    assert exact.peak.at(16) > plain.peak.at(16)


@pytest.mark.parametrize(
    ("blocks", "vectors"),
    [((range(1),), (1, 1)), ((range(4),), (3, 1)), ((range(3), range(3, 6)), (2, 2))],
    ids=("one", "four", "three of six"),
)
def test_tree_vectors(blocks: tuple[range, ...], vectors: tuple[int, int]) -> None:
    assert tree_vectors(blocks) == vectors


def test_frozen_layers_have_no_gradients() -> None:
    whole = whole_model_memory(subject(weights="DEFAULT", image_size=8, **DEEP), Sharing(1))
    frozen = whole_model_memory(subject(weights="DEFAULT", image_size=8, freeze="backbone", **DEEP), Sharing(1))
    assert frozen.weights == whole.weights
    assert frozen.gradients == frozen.optimizer == 4 * (64 * 10 + 10)
    assert frozen.activations.at(64) < whole.activations.at(64)
