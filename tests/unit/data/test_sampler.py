"""Each process reads the images that the order assigns to it, as cut by Accelerate's own sampler."""

import math
from typing import Any

import pytest
import torch
from accelerate.data_loader import BatchSamplerShard

from accel_train.config.plan import divide
from accel_train.data.sampler import PADDING, EvaluationSampler, ImageOrder, UpdateSampler


def lists(sampler: Any) -> list[list[int]]:
    return [batch.tolist() for batch in sampler]


def shards(sampler: Any, processes: int) -> list[list[list[int]]]:
    """Return the batches of every process, as cut by `split_batches`."""
    return [
        lists(BatchSamplerShard(sampler, processes, p, split_batches=True, even_batches=False))
        for p in range(processes)
    ]


def update_sampler(images: int, batch_size: int, processes: int, accumulate: int, epochs: int = 1) -> UpdateSampler:
    order = ImageOrder(3, images)
    blocks = divide(processes * accumulate, processes)
    return UpdateSampler(order, batch_size=batch_size, blocks=blocks, epochs=epochs)


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 6), (2, 3), (3, 2), (6, 1)])
@pytest.mark.parametrize("per_read", [2, 4, 5, 90, 1000])
@pytest.mark.parametrize("first_update", [0, 1, 6])
def test_micro_batches_do_not_depend_on_per_read(
    processes: int, accumulate: int, per_read: int, first_update: int
) -> None:
    """With epochs of three updates, most reads cross the end of an epoch, and the last one is not full."""

    def micro_batches(per_read: int) -> list[list[list[int]]]:
        blocks = divide(6, processes)
        sampler = UpdateSampler(ImageOrder(3, 100), batch_size=5, blocks=blocks, epochs=3, per_read=per_read)
        sampler.first_update = first_update
        reads = shards(sampler, processes)
        assert {len(own) for own in reads} == {len(sampler)}
        return [[read[i : i + 5] for read in own for i in range(0, len(read), 5)] for own in reads]

    for together, one_by_one in zip(micro_batches(per_read), micro_batches(1), strict=True):
        assert together[: len(one_by_one)] == one_by_one
        assert len(one_by_one) == (9 - first_update) * accumulate
        assert all(extra == one_by_one[-1] for extra in together[len(one_by_one) :])


def test_read_is_not_larger_than_the_run() -> None:
    sampler = UpdateSampler(ImageOrder(3, 100), batch_size=5, blocks=divide(6, 2), epochs=1, per_read=1000)
    assert [len(read) for read in sampler] == [90]


def sample_indices(seed: int, images: int, epoch: int) -> list[int]:
    return ImageOrder(seed, images).sample_indices(epoch).tolist()


@pytest.mark.parametrize("images", [1, 2, 10, 1437])
@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_every_image_comes_once_per_epoch_with_an_index_of_that_epoch(images: int, epoch: int) -> None:
    assert sorted(sample_indices(0, images, epoch)) == list(range(epoch * images, (epoch + 1) * images))


def test_order_is_determined_by_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        return [index % 1437 for index in sample_indices(seed, 1437, epoch)]

    first = order(0, 0)
    assert order(0, 0) == first
    for other in (order(0, 1), order(1, 0), list(range(1437))):
        assert sum(a == b for a, b in zip(first, other, strict=True)) < 10  # unrelated orders agree in about one place


@pytest.mark.parametrize("first_update", [0, 1, 2, 3, 5, 8])
def test_later_start_yields_the_rest(first_update: int) -> None:
    """An epoch of 20 images has three updates: 0 and 3 start an epoch; after 8 one update is left."""
    whole, later = (update_sampler(20, 2, 1, 3, epochs=3) for _ in range(2))
    later.first_update = first_update
    assert lists(later) == lists(whole)[3 * first_update :]
    assert len(later) == len(lists(later))


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 6), (2, 3), (3, 2), (6, 1)])
def test_process_p_has_the_micro_batches_from_p_times_a(processes: int, accumulate: int) -> None:
    images, batch_size, micro_batches, epochs = 1000, 5, 6, 3
    orders = [sample_indices(3, images, epoch) for epoch in range(epochs)]
    by_process = shards(update_sampler(images, batch_size, processes, accumulate, epochs), processes)
    updates = images // (batch_size * micro_batches)
    for process, batches in enumerate(by_process):
        assert len(batches) == epochs * updates * accumulate
        for position, batch in enumerate(batches):
            update, micro_batch = divmod(position, accumulate)
            epoch, update = divmod(update, updates)
            start = update * batch_size * micro_batches + (process * accumulate + micro_batch) * batch_size
            assert batch == orders[epoch][start : start + batch_size]


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 6), (2, 3), (3, 2), (6, 1)])
def test_update_has_the_same_images_on_any_number_of_processes(processes: int, accumulate: int) -> None:
    order = torch.tensor(sample_indices(3, 100, 0))[:90].view(3, 30)
    by_process = shards(update_sampler(100, 5, processes, accumulate), processes)
    for update, expected in enumerate(order):
        taken = [t for p in by_process for batch in p[update * accumulate : (update + 1) * accumulate] for t in batch]
        assert taken == expected.tolist()  # concatenated by process, even in the same order


@pytest.mark.parametrize(("micro_batches", "processes"), [(8, 3), (8, 5), (6, 5), (7, 4)])
@pytest.mark.parametrize("per_read", [1, 3, 1000])
def test_processes_that_do_not_divide_the_micro_batches_share_them(
    micro_batches: int, processes: int, per_read: int
) -> None:
    """A process with fewer than others gets its last one again, for the loop to ignore."""
    order, blocks = ImageOrder(3, 100), divide(micro_batches, processes)
    sampler = UpdateSampler(order, batch_size=2, blocks=blocks, epochs=2, per_read=per_read)
    updates, most = 100 // (2 * micro_batches), len(blocks[0])
    epochs = [order.sample_indices(e)[: updates * 2 * micro_batches].reshape(updates, -1, 2).tolist() for e in (0, 1)]
    for reads, block in zip(shards(sampler, processes), blocks, strict=True):
        found = [read[i : i + 2] for read in reads for i in range(0, len(read), 2)]
        own = [update[block[min(m, len(block) - 1)]] for e in epochs for update in e for m in range(most)]
        assert found[: len(own)] == own


@pytest.mark.parametrize("per_read", [1, 3])
def test_stages_of_a_replica_read_the_same(per_read: int) -> None:
    order, blocks = ImageOrder(3, 50), divide(6, 2)
    sampler = UpdateSampler(order, batch_size=2, blocks=blocks, stages=3, epochs=1, per_read=per_read)
    alone = UpdateSampler(order, batch_size=2, blocks=blocks, epochs=1, per_read=per_read)
    replicas = shards(alone, 2)
    assert shards(sampler, 6) == [replicas[process // 3] for process in range(6)]
    evaluated = EvaluationSampler(11, batch_size=2, replicas=2, stages=3)
    replicas = shards(EvaluationSampler(11, batch_size=2, replicas=2), 2)
    assert shards(evaluated, 6) == [replicas[process // 3] for process in range(6)]
    assert len(evaluated) == len(replicas[0])


@pytest.mark.parametrize(("images", "updates"), [(36, 3), (47, 3), (48, 4), (12, 1)])
def test_incomplete_last_update_is_dropped(images: int, updates: int) -> None:
    sampler = update_sampler(images, 2, 2, 3)
    batches = list(sampler)
    assert len(batches) == len(sampler) == updates * 3
    assert {len(batch) for batch in batches} == {4}
    assert sorted(t for batch in batches for t in batch) == sorted(sample_indices(3, images, 0)[: updates * 12])


def test_iteration_can_be_repeated() -> None:
    sampler = update_sampler(100, 2, 2, 3)
    assert lists(sampler) == lists(sampler)


@pytest.mark.parametrize("images", [1, 3, 4, 9, 12, 17])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_evaluation_reads_every_image_once_in_the_same_number_of_batches(images: int, processes: int) -> None:
    """m01: 9, 17 and 3 images in batches of 4."""
    sampler = EvaluationSampler(images, batch_size=4, replicas=processes)
    by_process = shards(sampler, processes)
    seen = [i for batches in by_process for batch in batches for i in batch]
    assert sorted(i for i in seen if i != PADDING) == list(range(images))
    assert {len(batches) for batches in by_process} == {len(sampler)} == {-(-images // (4 * processes))}
    assert {len(batch) for batches in by_process for batch in batches} == {4}


def test_evaluation_reads_images_in_order() -> None:
    assert lists(EvaluationSampler(9, batch_size=4, replicas=1)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, -1, -1, -1]]
    assert shards(EvaluationSampler(9, batch_size=2, replicas=2), 2) == [
        [[0, 1], [4, 5], [8, -1]],
        [[2, 3], [6, 7], [-1, -1]],
    ]


@pytest.mark.parametrize(("images", "repeats"), [(12, 1), (12, 3), (13, 3), (12, 5), (2, 100)])
@pytest.mark.parametrize("epoch", [0, 2])
def test_repeated_images_come_in_a_row_with_an_index_for_each_copy(images: int, repeats: int, epoch: int) -> None:
    order = ImageOrder(3, images, repeats).sample_indices(epoch).tolist()
    assert len(order) == len(set(order)) == images
    used = ImageOrder(3, images).sample_indices(epoch).tolist()[: math.ceil(images / repeats)]
    assert [index % images for index in order] == [i % images for i in used for _ in range(repeats)][:images]
    passes = [index // images for index in order]
    assert passes == [epoch * repeats + copy for _ in used for copy in range(repeats)][:images]


@pytest.mark.parametrize(("processes", "accumulate"), [(1, 6), (2, 3), (3, 2), (6, 1)])
def test_copies_of_an_image_are_in_different_micro_batches_of_one_update(processes: int, accumulate: int) -> None:
    order, blocks = ImageOrder(3, 100, repeats=3), divide(6, processes)
    by_process = shards(UpdateSampler(order, batch_size=5, blocks=blocks, epochs=2), processes)
    for number in range(6):
        own = [batches[number * accumulate : (number + 1) * accumulate] for batches in by_process]
        micro_batches = [[index % 100 for index in batch] for of_process in own for batch in of_process]
        start = number // 3 * 100 + number % 3 * 30
        expected = [i for epoch in (0, 1) for i in order.sample_indices(epoch).tolist()][start : start + 30]
        assert sorted(i for batch in micro_batches for i in batch) == sorted(index % 100 for index in expected)
        assert all(len(set(batch)) == len(batch) for batch in micro_batches)
        assert [i for places in zip(*micro_batches, strict=True) for i in places] == [i % 100 for i in expected]
