"""A function that never returns is left behind."""

import threading

import pytest

from accel_train.errors import UserError
from accel_train.system.time_limit import within


def test_result_is_returned() -> None:
    assert within(60, lambda: 7) == 7


def test_none_is_a_result() -> None:
    assert within(60, lambda: None) is None


def test_error_is_raised_here() -> None:
    def fail() -> None:
        raise UserError("a message", "a hint")

    with pytest.raises(UserError, match="a message"):
        within(60, fail)


def test_function_that_hangs_is_left_behind() -> None:
    released = threading.Event()
    with pytest.raises(TimeoutError):
        within(0.01, released.wait)
    released.set()
