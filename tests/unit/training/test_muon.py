"""Muon equals its formulas: orthogonal momentum for hidden matrices, AdamW for the rest."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.optimizing import DECAY, largest_difference, one_update, trained
from torch import Tensor, nn

from accel_train.training.muon import Muon, orthogonalized

Array = np.ndarray[Any, np.dtype[np.float64]]


def test_singular_values_become_nearly_1_and_singular_vectors_stay() -> None:
    torch.manual_seed(0)
    for shape in ((4, 9), (9, 4), (6, 6)):
        u, s, v = torch.linalg.svd(torch.randn(shape, dtype=torch.float64), full_matrices=False)
        found = u.T @ orthogonalized(u @ torch.diag(s + 0.1) @ v) @ v.T
        assert ((torch.diag(found) > 0.65) & (torch.diag(found) < 1.25)).all()
        assert torch.allclose(found, torch.diag(torch.diag(found)), atol=1e-12)


def test_zero_matrix_stays_zero() -> None:
    assert torch.equal(orthogonalized(torch.zeros(2, 3)), torch.zeros(2, 3))


class Formulas:
    """The formulas of the authors in numpy, given the gradients of each update."""

    def __init__(self, weights: list[Tensor], lr: float) -> None:
        self.weights = [w.detach().double().numpy().copy() for w in weights]
        self.moments = [[np.zeros_like(w), np.zeros_like(w)] for w in self.weights]
        self.lr, self.update = lr, 0

    def take(self, gradients: list[Tensor], weights: list[Tensor]) -> None:
        self.update += 1
        lr = self.lr * self.update / 50
        for n, gradient in enumerate(g.double().numpy() for g in gradients):
            w, (first, second) = self.weights[n], self.moments[n]
            if w.ndim > 1:
                first += 0.05 * (gradient - first)
                nesterov = gradient + 0.95 * (first - gradient)
                matrix = newton_schulz(nesterov.reshape(len(nesterov), -1))
                step = 0.2 * np.sqrt(max(matrix.shape)) * matrix.reshape(w.shape)
            else:
                first += 0.1 * (gradient - first)
                second += 0.001 * (gradient**2 - second)
                unbiased = second / (1 - 0.999**self.update)
                step = first / (1 - 0.9**self.update) / (np.sqrt(unbiased) + 1e-8)
            w *= 1 - lr * (DECAY if w.ndim > 1 else 0)
            w -= lr * step


def newton_schulz(x: Array) -> Array:
    if x.shape[0] > x.shape[1]:
        return newton_schulz(x.T).T
    x = x / np.linalg.norm(x)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x


def hidden(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [groups[0] | {"hidden": True}, groups[1]]


def test_fifty_updates_equal_the_formulas() -> None:
    start = trained(lambda groups: Muon(groups, lr=0.0), lr=0.0)
    formulas = Formulas(start, lr=0.02)
    found = trained(lambda groups: Muon(hidden(groups), lr=0.0), lr=0.02, after=formulas.take)
    assert largest_difference(found, start) > 0.1
    assert largest_difference(found, [torch.from_numpy(w) for w in formulas.weights]) < 1e-6


def test_groups_that_are_not_hidden_take_the_steps_of_adamw() -> None:
    found = trained(lambda groups: Muon(groups, lr=0.0), lr=0.01)
    assert largest_difference(found, trained(torch.optim.AdamW, lr=0.01)) < 1e-9


@pytest.mark.parametrize("shape", [(8, 5), (5, 8)])
def test_matrices_are_updated_as_by_torch_in_bfloat16(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    start, gradients = torch.randn(shape), [torch.randn(shape) for _ in range(3)]
    moved = []
    for make in (
        lambda p: Muon([{"params": [p], "hidden": True, "weight_decay": 0.1}], lr=0.0),
        lambda p: torch.optim.Muon([p], lr=0.0, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
    ):
        matrix = nn.Parameter(start.clone())
        optimizer = make(matrix)
        for gradient in gradients:
            one_update(optimizer, 0.1, {matrix: gradient})
        moved.append(matrix.detach() - start)
    assert (moved[0] - moved[1]).norm() / moved[1].norm() < 0.03
