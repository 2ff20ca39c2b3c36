"""The order of adding is that of one tree over all virtual workers, and a flat vector holds what the model needs."""

import pytest
import torch
from torch import Tensor, nn

from accel_train.training.tree_reduce import FixedTree, Sum, combine, gradients, set_gradients, subtrees

FLOATS = 999
CUTS = [(workers, processes) for workers in range(1, 17) for processes in range(1, 17) if workers % processes == 0]


def vectors(workers: int) -> list[Tensor]:
    """Return numbers of such different sizes that every order of adding has a sum of its own."""
    generator = torch.Generator().manual_seed(workers)
    sizes = 10.0 ** torch.randint(-4, 5, (workers, FLOATS), generator=generator)
    return list(torch.randn(workers, FLOATS, generator=generator) * sizes)


def tree(level: list[Tensor]) -> Tensor:
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize(("workers", "processes"), CUTS)
def test_the_sum_is_that_of_the_tree_however_the_workers_are_cut(workers: int, processes: int) -> None:
    leaves, share = vectors(workers), workers // processes
    found: list[Sum] = []
    for process in range(processes):
        of_process: list[Sum] = []
        for worker in range(process * share, (process + 1) * share):
            combine(of_process, Sum(worker, worker + 1, leaves[worker].clone()), workers)
            assert len(of_process) <= 2 * share.bit_length() - 1
        assert [(s.start, s.end) for s in of_process] == subtrees(workers, process * share, (process + 1) * share)
        for part in of_process:
            combine(found, part, workers)
    ((start, end, vector),) = found
    assert (start, end) == (0, workers)
    assert torch.equal(vector, tree(leaves))


def test_another_order_would_have_another_sum() -> None:
    leaves = vectors(6)
    assert not torch.equal(tree(leaves), tree([tree(leaves[:3]), tree(leaves[3:])]))


@pytest.mark.parametrize(
    ("workers", "block", "expected"),
    [
        (6, (0, 3), [(0, 2), (2, 3)]),
        (6, (3, 6), [(3, 4), (4, 6)]),
        (8, (4, 8), [(4, 8)]),
        (10, (5, 10), [(5, 6), (6, 8), (8, 10)]),
        (15, (10, 15), [(10, 12), (12, 15)]),
        (7, (0, 7), [(0, 7)]),
    ],
)
def test_a_block_is_cut_into_the_largest_subtrees(
    workers: int, block: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    assert subtrees(workers, *block) == expected


def test_one_process_needs_no_other_and_can_begin_anew() -> None:
    fixed = FixedTree(virtual_workers=7, processes=1, rank=0)
    for _ in range(2):
        for vector in vectors(7):
            fixed.add(vector)
        assert torch.equal(fixed.total(), tree(vectors(7)))


def test_a_missing_virtual_worker_is_noticed() -> None:
    fixed = FixedTree(virtual_workers=2, processes=1, rank=0)
    fixed.add(torch.ones(3))
    with pytest.raises(AssertionError, match="not all virtual workers"):
        fixed.total()


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2).double())
    return net.to(memory_format=torch.channels_last)


def test_gradients_come_back_as_they_were_laid_out_like_their_parameters() -> None:
    net, more = make_net(), torch.tensor([7.0, 8.0])
    parameters = list(net.parameters())
    net[2](net[:2](torch.randn(5, 3, 4, 4)).double()).square().sum().backward()
    expected = [p.grad.clone() for p in parameters if p.grad is not None]
    flat = gradients(parameters, more)
    assert (flat.dim(), flat.dtype, flat.requires_grad) == (1, torch.float64, False)
    net.zero_grad()
    assert set_gradients(parameters, flat).tolist() == more.tolist()
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.dtype == parameter.dtype
        assert parameter.grad.stride() == parameter.stride()
        assert torch.equal(parameter.grad, gradient)
