"""Adam's updates are torch's, and their state is torch's too."""

import pytest
import torch
from torch import nn

from accel_train.training.adam_moments import adam_updates


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_updates_and_state_are_those_of_torch(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, theirs = ([nn.Parameter(torch.zeros(shape, dtype=dtype)) for shape in ((2, 3), (4,))] for _ in range(2))
    state: dict[torch.Tensor, dict[str, torch.Tensor]] = {p: {} for p in ours}
    optimizer = torch.optim.Adam(theirs, lr=0.1, betas=(0.8, 0.95), eps=1e-4)
    for _ in range(4):
        before = [p.detach().clone() for p in theirs]
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        optimizer.step()
        updates = adam_updates(state, ours, (0.8, 0.95), 1e-4)
        for update, old, new in zip(updates, before, theirs, strict=True):
            assert torch.allclose(old - 0.1 * update, new, rtol=1e-5, atol=1e-7)
    for p, q in zip(ours, theirs, strict=True):
        assert state[p].keys() == optimizer.state[q].keys()
        for name, value in state[p].items():
            assert torch.allclose(value, optimizer.state[q][name])
            assert value.dtype == optimizer.state[q][name].dtype
