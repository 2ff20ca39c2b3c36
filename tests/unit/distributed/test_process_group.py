"""Processes exchange small values, a single process with itself."""

import pytest

from accel_train.distributed.process_group import exchange, host_group, leave, sends_gpu_tensors


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
