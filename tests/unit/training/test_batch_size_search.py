"""The batch-size search finds the largest size that fits everywhere, and changes nothing."""

import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accel_train.errors import UserError
from accel_train.models.build import build_model
from accel_train.training.batch_size_search import largest_fitting, try_update


class Limited:
    """Fails for more images than fit, and records the sizes tried."""

    def __init__(self, limit: int, error: Exception) -> None:
        self.limit = limit
        self.error = error
        self.tried: list[int] = []

    def __call__(self, size: int) -> None:
        self.tried.append(size)
        if size > self.limit:
            raise self.error


def test_search_ends_at_first_size_too_large_and_processes_agree() -> None:
    limited, asked = Limited(5, MemoryError()), list[int]()

    def agree(mine: int) -> int:
        asked.append(mine)
        return 2

    assert largest_fitting(limited, (1, 2, 4, 8, 16), agree) == 2
    assert limited.tried == [1, 2, 4, 8]
    assert asked == [4]


def test_largest_size_can_fit() -> None:
    assert largest_fitting(Limited(99, MemoryError()), (1, 3, 9), lambda mine: mine) == 9


@pytest.mark.parametrize(("mine", "agreed"), [(0, 0), (8, 0)])
def test_single_image_that_does_not_fit_everywhere_is_an_error(mine: int, agreed: int) -> None:
    asked = list[int]()
    with pytest.raises(UserError, match="no batch size fits into the memory of every process, not even 1"):
        largest_fitting(Limited(mine, MemoryError()), (1, 2, 4, 8), lambda own: asked.append(own) or agreed)
    assert asked == [mine]


def test_other_errors_are_raised() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        largest_fitting(Limited(2, RuntimeError("shape")), (1, 2, 4), lambda mine: mine)


def test_batch_too_small_for_batch_norm_is_skipped() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    fitting = largest_fitting(
        lambda size: try_update(net, torch.ones(size, 3), 4, copies=0), (1, 2, 4), lambda mine: mine
    )
    assert fitting == 4


class Drawing(nn.Module):
    """Draws from every generator, has buffers, and fails if `fails` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
        self.fails = False
        self.modes: list[bool] = []

    def forward(self, images: Tensor) -> Tensor:
        self.modes.append(self.training)
        logits: Tensor = self.layers(images) * random.random() * np.random.rand()
        if self.fails:
            raise MemoryError
        return logits


@pytest.mark.parametrize("fails", [False, True])
def test_tried_update_changes_nothing(fails: bool) -> None:
    net = Drawing()
    net.fails = fails
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    generators = (torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist())
    images = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    try:
        try_update(net, images, 4, copies=2)
    except MemoryError:
        assert fails
    assert net.modes == [True]
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert np.random.get_state()[1].tolist() == generators[2]


def test_tried_update_includes_auxiliary_heads() -> None:
    net = build_model("googlenet", classes=5, channels=3, data_size=32, image_size=None).module
    try_update(net, torch.rand(2, 3, 32, 32), 5, copies=1)


def test_tried_update_names_a_model_for_other_classes() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(12, 4))
    with pytest.raises(UserError, match="4"):
        try_update(module, torch.zeros(2, 3, 2, 2), 5, copies=0)
