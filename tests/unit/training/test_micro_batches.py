"""Reads of the loader are split into micro-batches, from the first update asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from accel_train.data.worker_batches import Batch
from accel_train.errors import UserError
from accel_train.training.loss import Targets
from accel_train.training.micro_batches import MicroBatch, TrainBatches
from accel_train.training.mixing import Mixing
from accel_train.training.timing import Timing

MIXING = Mixing(5, mixup=0.4, cutmix=1.0, size=8)


@pytest.mark.parametrize("per_read", [1, 2, 3])
def test_reads_are_split_into_micro_batches(per_read: int) -> None:
    def read(number: int) -> Batch:
        indices_B = torch.arange(2 * per_read * number, 2 * per_read * (number + 1))
        return Batch(indices_B[:, None].float(), indices_B % 5, indices_B)

    def transform(images: Tensor, sample_indices_B: Tensor) -> Tensor:
        assert torch.equal(images[:, 0].long(), sample_indices_B)
        return (images * 10).requires_grad_()

    sampler: Any = SimpleNamespace(first_update=0)
    reads: Any = [read(n) for n in range(6 // per_read)]
    batches = TrainBatches(reads, sampler, transform, 2, Mixing(), range(1), 1)
    found = list(batches.micro_batches(7, Timing()))
    assert sampler.first_update == 7
    assert [batch.sample_indices_B.tolist() for batch in found] == [[2 * n, 2 * n + 1] for n in range(6)]
    for images, targets, indices_B in found:
        assert torch.equal(images[:, 0], indices_B * 10.0)
        assert torch.equal(targets.labels_B, indices_B % 5)
        assert (targets.others_B, targets.others_share) == (None, 0.0)
        assert not images.requires_grad


def pictures(update: int, index: int) -> Batch:
    """Return three pictures of a micro-batch."""
    generator = torch.Generator().manual_seed(100 * update + index)
    return Batch(torch.randn(3, 1, 8, 8, generator=generator), torch.arange(3) + index, torch.arange(3))


def mixed(own: range, per_update: int, first_update: int, per_read: int) -> dict[tuple[int, int], MicroBatch]:
    """Return the micro-batches of a process up to update 4, by update and index."""
    keys = [(update, own[min(m, len(own) - 1)]) for update in range(first_update, 4) for m in range(per_update)]
    parts = [[pictures(*key) for key in keys[i : i + per_read]] for i in range(0, len(keys), per_read)]
    reads: Any = [Batch(*map(torch.cat, zip(*part, strict=True))) for part in parts]
    sampler: Any = SimpleNamespace(first_update=0)
    batches = TrainBatches(reads, sampler, lambda images, indices: images, 3, MIXING, own, per_update)
    return dict(zip(keys, batches.micro_batches(first_update, Timing()), strict=True))


@pytest.mark.parametrize("per_read", [1, 3])
@pytest.mark.parametrize(("blocks", "per_update"), [([range(3)], 3), ([range(2), range(2, 3)], 2)])
@pytest.mark.parametrize("first_update", [0, 2])
def test_micro_batches_are_mixed_by_update_and_index(
    blocks: list[range], per_update: int, first_update: int, per_read: int
) -> None:
    found = {key: batch for own in blocks for key, batch in mixed(own, per_update, first_update, per_read).items()}
    assert sorted(found) == [(update, index) for update in range(first_update, 4) for index in range(3)]
    for (update, index), batch in found.items():
        mix, read = MIXING.draw(update, index, 3), pictures(update, index)
        assert torch.equal(batch.images_BCHW, mix.images(read.images_BCHW))
        assert not torch.equal(batch.images_BCHW, read.images_BCHW)
        expected: Targets = mix.targets(read.labels_B)
        assert torch.equal(batch.targets.labels_B, expected.labels_B)
        assert torch.equal(batch.targets.others_B, expected.others_B)  # type: ignore[arg-type]
        assert batch.targets.others_share == expected.others_share


def test_single_image_cannot_be_mixed() -> None:
    sampler: Any = SimpleNamespace(first_update=0)
    with pytest.raises(UserError, match="a micro-batch, which has one image") as raised:
        TrainBatches([], sampler, lambda images, indices: images, 1, MIXING, range(1), 1)
    assert raised.value.hint == "use --batch-size 2 or more"
