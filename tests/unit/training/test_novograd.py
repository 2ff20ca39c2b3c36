"""NovoGrad equals timm's, and divides every gradient by its norm."""

import pytest
import timm.optim
import torch
from helpers.optimizing import largest_difference, one_update, trained
from torch import nn

from accel_train.training.novograd import NovoGrad


def test_fifty_updates_equal_those_of_timm() -> None:
    found = trained(lambda groups: NovoGrad(groups, lr=0.0), lr=0.02)
    expected = trained(timm.optim.NvNovoGrad, lr=0.02)
    assert largest_difference(found, expected) < 1e-6  # timm keeps second moments in float32


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("shape", [(2,), (1, 2), (1, 1, 2, 1)])
def test_gradient_is_divided_by_its_norm(scale: float, shape: tuple[int, ...]) -> None:
    parameter = nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64).view(shape))
    gradient = scale * torch.tensor([3.0, 4.0], dtype=torch.float64).view(shape)
    one_update(NovoGrad([parameter], lr=0.0, eps=0.0), 0.5, {parameter: gradient})
    assert parameter.flatten().tolist() == pytest.approx([1 - 0.5 * 0.6, 2 - 0.5 * 0.8])


def test_of_the_second_moment_one_number_is_kept() -> None:
    parameter = nn.Parameter(torch.ones(2, 3))
    optimizer = NovoGrad([parameter], lr=0.0, betas=(0.9, 0.75))
    for norm in (2.0, 4.0):
        one_update(optimizer, 0.1, {parameter: torch.full((2, 3), norm / 6**0.5)})
    state = optimizer.state[parameter]
    assert {name: tuple(value.shape) for name, value in state.items()} == {"exp_avg": (2, 3), "second_moment": ()}
    assert state["second_moment"].item() == pytest.approx(0.75 * 4 + 0.25 * 16)
