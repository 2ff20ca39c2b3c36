"""Fifty updates of a small network by an optimizer, to compare with another one."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

UPDATES = 50
DECAY = 0.01


def network(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    """Return convolutions, BatchNorm and a linear layer, in channels-last as in a run."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Tanh(), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(96, 5)).to(dtype).to(memory_format=torch.channels_last)


def groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Return matrices, which decay, and vectors."""
    found = list(parameters)
    matrices, vectors = ([p for p in found if (p.ndim > 1) == wanted] for wanted in (True, False))
    return [{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}]


def trained(
    make: Callable[[list[dict[str, Any]]], torch.optim.Optimizer],
    lr: float,
    dtype: torch.dtype = torch.float64,
    after: Callable[[list[Tensor], list[Tensor]], None] = lambda gradients, weights: None,
) -> list[Tensor]:
    """Return the weights after fifty updates by the optimizer that `make` returns for parameter groups.

    `after` gets the gradients and the new weights of every update.
    """
    model = network(dtype)
    optimizer = make(groups(model.parameters()))
    images, labels = torch.randn(32, 2, 8, 8).to(dtype), torch.randint(5, (32,))
    for update in range(UPDATES):
        for group in optimizer.param_groups:
            group["lr"] = lr * (update + 1) / UPDATES
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        after([p.grad.clone() for p in model.parameters() if p.grad is not None], list(model.parameters()))
    return [p.detach() for p in model.parameters()]


def largest_difference(found: list[Tensor], expected: list[Tensor]) -> float:
    """Return the largest difference, divided by the largest weight of its tensor."""
    pairs = zip(found, expected, strict=True)
    return max(((a.double() - b.double()).abs().max() / b.abs().max()).item() for a, b in pairs)


def one_update(optimizer: torch.optim.Optimizer, lr: float, gradients: dict[nn.Parameter, Tensor]) -> None:
    """Make one update with given gradients."""
    for group in optimizer.param_groups:
        group["lr"] = lr
    for parameter, gradient in gradients.items():
        parameter.grad = gradient
    optimizer.step()
