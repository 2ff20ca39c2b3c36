"""Calls functions that may never return, such as those that use a dead network file system."""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def within(seconds: float, function: Callable[[], T]) -> T:
    """Return the result of a function that is called in a thread of its own; the thread may outlive this call.

    Raises:
        TimeoutError: the function has not returned in time.
        Exception: what the function raises.
    """
    outcome: list[tuple[Any, BaseException | None]] = []

    def call() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    result, error = outcome[0]
    if error is not None:
        raise error
    returned: T = result
    return returned
