"""A fingerprint changes with every bit, position and number, and finds the first rank that differs."""

from typing import Any

import pytest
import torch
from torch import Tensor

from accel_train.distributed import process_group
from accel_train.distributed.replica_check import compare, fingerprint, first_difference
from accel_train.errors import UserError

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool)
SIZES = (1, 3, 2**14, 2**14 + 1, 100_000)


def some(size: int = 100_000, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randint(0, 2, (size,), generator=torch.Generator().manual_seed(size)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_any_bit_changes_the_fingerprint(dtype: torch.dtype, size: int) -> None:
    tensor = some(size, dtype)
    found = {fingerprint([tensor])}
    assert fingerprint([tensor.clone()]) in found
    places = {0, size // 2, size - 1}
    for place in places:
        changed = tensor.clone()
        changed[place] = 1 - changed[place].to(torch.int64)
        found.add(fingerprint([changed]))
    assert len(found) == 1 + len(places)
    assert all(0 <= value < 2**64 for value in found)


def test_pairs_of_changed_signs_do_not_cancel() -> None:
    tensor = torch.randn(50_000, generator=torch.Generator().manual_seed(0))
    found = {fingerprint([tensor]), fingerprint([-tensor])}
    for other in (1, 2, 2**14, 2**15, 49_999):
        changed = tensor.clone()
        changed[[0, other]] *= -1
        found.add(fingerprint([changed]))
    assert len(found) == 7


def test_order_and_boundaries_of_tensors_change_the_fingerprint() -> None:
    a, b = torch.arange(3.0), torch.arange(3.0, 5.0)
    found = [
        fingerprint([]),
        fingerprint([a]),
        fingerprint([a, b]),
        fingerprint([b, a]),
        fingerprint([torch.cat([a, b])]),
        fingerprint([torch.cat([a, b])[:2], torch.cat([a, b])[2:]]),
        fingerprint([a[[0, 2]], a[1:2]]),
        fingerprint([a[[0]], a[1:3]]),
        fingerprint([a.flip(0)]),
        fingerprint([torch.cat([torch.zeros(2**14), a])]),
        fingerprint([torch.cat([a, torch.zeros(2**14)])]),
        fingerprint([a], 0),
        fingerprint([a], 1),
        fingerprint([a], 1, 2),
        fingerprint([a], 2, 1),
        fingerprint([a], -1),
    ]
    assert len(set(found)) == len(found)


def test_memory_format_and_gradients_do_not_change_the_fingerprint() -> None:
    images_BCHW = torch.randn(2, 3, 4, 4)
    expected = fingerprint([images_BCHW])
    assert fingerprint([images_BCHW.to(memory_format=torch.channels_last)]) == expected
    assert fingerprint([images_BCHW.clone().requires_grad_()]) == expected


def test_equal_values_with_other_bits_differ() -> None:
    assert fingerprint([torch.tensor([0.0])]) != fingerprint([torch.tensor([-0.0])])
    assert fingerprint([torch.tensor([torch.nan])]) == fingerprint([torch.tensor([torch.nan])])


@pytest.mark.parametrize(
    ("by_rank", "expected"),
    [
        ([[1, 2]], None),
        ([[1, 2], [1, 2], [1, 2]], None),
        ([[1, 2], [1, 3]], (1, "order")),  # of two, rank 0 counts as right
        ([[9, 2], [1, 2], [1, 2]], (0, "weights")),
        ([[1, 2], [1, 3], [8, 2]], (1, "order")),  # the first rank
        ([[1, 2], [8, 3], [1, 2]], (1, "weights")),  # the first name
        ([[1, 2], [1, 2], [8, 2], [8, 2]], (2, "weights")),
        ([[5, 2], [1, 2], [1, 2], [7, 2]], (0, "weights")),
    ],
)
def test_first_rank_that_differs_from_the_majority_is_found(
    by_rank: list[list[int]], expected: tuple[int, str] | None
) -> None:
    assert first_difference(by_rank, ["weights", "order"]) == expected


def test_differing_rank_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def exchange(group: Any, own: list[int]) -> list[list[int]]:
        assert all(-(2**63) <= value < 2**63 for value in own)
        return [own, [own[0], own[1] - 1]]

    compare(None, {"weights": 2**64 - 1, "order": 0}, update=7)
    monkeypatch.setattr(process_group, "exchange", exchange)
    with pytest.raises(UserError, match="rank 1 differs from the other ranks in its order, found after update 7"):
        compare(None, {"weights": 2**64 - 1, "order": 1}, update=7)


def test_only_processes_with_the_same_part_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    by_rank = [[1], [2], [1], [2], [1], [3]]
    monkeypatch.setattr(process_group, "exchange", lambda group, own: by_rank)
    compare(None, {"part": 0}, 7, parts=[0, 1, 0, 1, 0, 2])
    with pytest.raises(UserError, match="rank 5 differs from the other ranks in its part, found after update 7"):
        compare(None, {"part": 0}, 7, parts=[0, 1, 0, 1, 0, 1])
