"""Processes exchange small values, a single process with itself; missing ranks are reported."""

import pytest

from accel_train.distributed import process_group
from accel_train.distributed.process_group import exchange, host_group, leave, sends_gpu_tensors
from accel_train.errors import LocalError, UserError


def test_single_process_exchanges_with_itself() -> None:
    assert host_group(1) is None
    assert exchange(None, [3, 4]) == [[3, 4]]


@pytest.mark.usefixtures("gloo")
def test_group_exchanges_integers_of_64_bits() -> None:
    group = host_group(1)
    assert group is not None
    assert exchange(group, [-(2**63), 2**63 - 1]) == [[-(2**63), 2**63 - 1]]
    assert not sends_gpu_tensors()


def test_leaving_twice_is_harmless() -> None:
    leave()
    leave()


@pytest.mark.parametrize(
    ("missing", "kind", "message"),
    [
        ([0], LocalError, "rank 0 did not join within 5 s"),  # nobody else can report it
        ([2], UserError, "rank 2 did not join within 5 s"),
        ([1, 3], UserError, "ranks 1, 3 did not join within 5 s"),
        (list(range(1, 12)), UserError, "ranks 1, 2, 3, 4, 5, 6, 7, 8, … did not join within 5 s"),
    ],
)
def test_missing_ranks_are_reported(missing: list[int], kind: type[UserError], message: str) -> None:
    error = process_group._absence(missing, 5)
    assert (type(error), error.message) == (kind, message)
