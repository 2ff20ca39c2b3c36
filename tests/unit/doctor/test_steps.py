"""A check that fails is reported with its reason; after one that hangs no other is made."""

import threading
from typing import Any

import pytest

from accel_train.doctor import steps as module
from accel_train.doctor.steps import Steps
from accel_train.errors import UserError


class Pair:
    """An exchange with a second process, whose outcomes are given."""

    rank, count = 0, 2

    def __init__(self, *others: Any) -> None:
        self._others = list(others)
        self.names: list[str] = []

    def everyones(self, name: str, own: Any) -> list[Any]:
        self.names.append(name)
        return [own, self._others.pop(0)]


def steps(*others: Any) -> Steps:
    pair: Any = Pair(*others)
    return Steps(pair, 60)


def found(taken: Steps) -> list[tuple[str, tuple[int, ...], str]]:
    return [(one.check, one.ranks, one.message) for one in taken.findings]


def test_values_of_all_are_returned() -> None:
    taken = steps({"value": 2}, {"value": 4})
    assert (taken.take("a", lambda: 1), taken.take("b", lambda: 3)) == ([1, 2], [3, 4])
    assert taken.findings == []


def test_failure_of_one_is_reported_and_the_next_check_is_made() -> None:
    taken = steps({"message": "no such thing", "fix": "make it"}, {"value": 4})
    assert (taken.take("a", lambda: 1), taken.take("b", lambda: 3)) == ([], [3, 4])
    assert found(taken) == [("a", (1,), "no such thing")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UserError("no such thing", "make it"), "no such thing"),
        (RuntimeError("Connection closed\nException raised from …"), "Connection closed"),
        (OSError(5, "Input/output error"), "[Errno 5] Input/output error"),
    ],
)
def test_own_failure_is_reported(error: Exception, message: str) -> None:
    def fail() -> None:
        raise error

    taken = steps({"value": 2})
    assert taken.take("a", fail) == []
    assert found(taken) == [("a", (0,), message)]


def test_after_a_silent_process_no_check_is_made() -> None:
    taken = steps(None)
    assert (taken.take("speed", lambda: 1), taken.take("b", lambda: 3)) == ([], [])
    assert found(taken) == [("hang", (1,), "has not answered within 60 s (check: speed)")]


def test_those_that_wait_for_a_silent_process_are_not_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_TO_REPORT", -59.99)
    released = threading.Event()
    taken = steps(None)
    assert taken.take("all-reduce", released.wait) == []
    released.set()
    assert found(taken) == [("hang", (1,), "has not answered within 60 s (check: all-reduce)")]


def test_all_that_hang_are_reported_with_the_likely_reason() -> None:
    taken = steps({"hangs": True})
    assert taken.take("start", lambda: 1) == []
    assert found(taken) == [("hang", (1,), "has not ended the check start within 60 s")]
    assert taken.findings[0].fix.startswith("let no firewall block")
