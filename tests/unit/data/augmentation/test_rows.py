"""A change of some images is the same whether only those are computed, as on a CPU, or all, as on a GPU."""

import pytest
import torch
from torch import Tensor

from accel_train.data.augmentation import boxes, operations
from accel_train.data.augmentation.boxes import RandomErasing
from accel_train.data.augmentation.operations import TRIVIAL_AUGMENT_WIDE, RandomOperations
from accel_train.data.augmentation.rows import change_all, change_chosen, change_rows


def noise(batch: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (batch, 3, 20, 14), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("change_them", [change_rows, change_chosen, change_all])
def test_only_chosen_images_are_changed_each_by_its_values(change_them: object) -> None:
    assert callable(change_them)
    images, values = noise(4), torch.tensor([1, 2, 3, 4], dtype=torch.uint8)
    chosen = torch.tensor([True, False, True, False])
    made = change_them(images.clone(), chosen, lambda some, each: some // each.view(-1, 1, 1, 1) + 1, values)
    assert torch.equal(made[0], images[0] + 1)
    assert torch.equal(made[2], images[2] // 3 + 1)
    assert torch.equal(made[1::2], images[1::2])
    nothing = change_them(images.clone(), torch.zeros(4, dtype=torch.bool), lambda some, each: some + 1, values)
    assert torch.equal(nothing, images)


def test_steps_give_the_same_images_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [RandomOperations(0, TRIVIAL_AUGMENT_WIDE, count=2, magnitude=None), RandomErasing(0, 0.5, (1, 2, 3))]
    images, sample_indices = noise(100), torch.arange(100)
    on_cpu = [step(images, sample_indices) for step in steps]
    monkeypatch.setattr(operations, "change_rows", change_all)
    monkeypatch.setattr(boxes, "change_rows", change_all)
    for step, made in zip(steps, on_cpu, strict=True):
        assert torch.equal(step(images, sample_indices), made)
