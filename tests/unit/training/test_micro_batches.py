"""Reads of the loader are split into micro-batches, from the first update asked for."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from accel_train.data.worker_batches import Batch
from accel_train.training.micro_batches import TrainBatches
from accel_train.training.timing import Timing


@pytest.mark.parametrize("per_read", [1, 2, 3])
def test_reads_are_split_into_micro_batches(per_read: int) -> None:
    def read(number: int) -> Batch:
        indices_B = torch.arange(2 * per_read * number, 2 * per_read * (number + 1))
        return Batch(indices_B[:, None].float(), indices_B % 5, indices_B)

    def transform(images: Tensor, sample_indices_B: Tensor) -> Tensor:
        assert torch.equal(images[:, 0].long(), sample_indices_B)
        return (images * 10).requires_grad_()

    sampler: Any = SimpleNamespace(first_update=0)
    batches = TrainBatches([read(n) for n in range(6 // per_read)], sampler, transform, batch_size=2)  # type: ignore[arg-type]
    found = list(batches.micro_batches(7, Timing()))
    assert sampler.first_update == 7
    assert [batch.sample_indices_B.tolist() for batch in found] == [[2 * n, 2 * n + 1] for n in range(6)]
    for images, labels_B, indices_B in found:
        assert torch.equal(images[:, 0], indices_B * 10.0)
        assert torch.equal(labels_B, indices_B % 5)
        assert not images.requires_grad
