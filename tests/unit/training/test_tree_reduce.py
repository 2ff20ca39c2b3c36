"""Gradients are added in one tree over all micro-batches; flat vectors keep the layout of the parameters."""

import pytest
import torch
from torch import Tensor, nn

from accel_train.config.plan import divide
from accel_train.training.tree_reduce import Sum, TreeReduce, combine, flat_gradients, set_gradients, subtrees

FLOATS = 999
CUTS = [(size, processes) for size in range(1, 17) for processes in range(1, size + 1)]


def vectors(micro_batches: int) -> list[Tensor]:
    """Return vectors of such different magnitudes that every order of adding gives another sum."""
    generator = torch.Generator().manual_seed(micro_batches)
    magnitudes = 10.0 ** torch.randint(-4, 5, (micro_batches, FLOATS), generator=generator)
    return list(torch.randn(micro_batches, FLOATS, generator=generator) * magnitudes)


def tree(level: list[Tensor]) -> Tensor:
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]


@pytest.mark.parametrize(("micro_batches", "processes"), CUTS)
def test_sum_equals_tree_on_any_number_of_processes(micro_batches: int, processes: int) -> None:
    leaves = vectors(micro_batches)
    found: list[Sum] = []
    for block in divide(micro_batches, processes):
        of_process: list[Sum] = []
        for index in block:
            combine(of_process, Sum(index, index + 1, leaves[index].clone()), micro_batches)
            assert len(of_process) <= 2 * len(block).bit_length() - 1
        assert [(s.start, s.end) for s in of_process] == subtrees(micro_batches, block.start, block.stop)
        for part in of_process:
            combine(found, part, micro_batches)
    ((start, end, vector),) = found
    assert (start, end) == (0, micro_batches)
    assert torch.equal(vector, tree(leaves))


def test_another_order_gives_another_sum() -> None:
    leaves = vectors(6)
    assert not torch.equal(tree(leaves), tree([tree(leaves[:3]), tree(leaves[3:])]))


@pytest.mark.parametrize(
    ("micro_batches", "block", "expected"),
    [
        (6, (0, 3), [(0, 2), (2, 3)]),
        (6, (3, 6), [(3, 4), (4, 6)]),
        (8, (4, 8), [(4, 8)]),
        (10, (5, 10), [(5, 6), (6, 8), (8, 10)]),
        (15, (10, 15), [(10, 12), (12, 15)]),
        (7, (0, 7), [(0, 7)]),
    ],
)
def test_block_is_split_into_the_largest_subtrees(
    micro_batches: int, block: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    assert subtrees(micro_batches, *block) == expected


def test_single_process_sums_alone_and_starts_again() -> None:
    tree_reduce = TreeReduce([range(7)], rank=0)
    for _ in range(2):
        for vector in vectors(7):
            tree_reduce.add(vector)
        assert torch.equal(tree_reduce.total(), tree(vectors(7)))


def test_missing_micro_batch_is_an_error() -> None:
    tree_reduce = TreeReduce([range(2)], rank=0)
    tree_reduce.add(torch.ones(3))
    with pytest.raises(AssertionError, match="not all micro-batches"):
        tree_reduce.total()


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(16, 2).double())
    return net.to(memory_format=torch.channels_last)


def test_gradients_keep_bits_dtype_and_memory_format() -> None:
    net, more = make_net(), torch.tensor([7.0, 8.0])
    parameters = list(net.parameters())
    net[2](net[:2](torch.randn(5, 3, 4, 4)).double()).square().sum().backward()
    expected = [p.grad.clone() for p in parameters if p.grad is not None]
    flat = flat_gradients(parameters, more)
    assert (flat.dim(), flat.dtype, flat.requires_grad) == (1, torch.float64, False)
    net.zero_grad()
    assert set_gradients(parameters, flat).tolist() == more.tolist()
    for parameter, gradient in zip(parameters, expected, strict=True):
        assert parameter.grad is not None
        assert parameter.grad.dtype == parameter.dtype
        assert parameter.grad.stride() == parameter.stride()
        assert torch.equal(parameter.grad, gradient)
