"""Values are exchanged through a store; a process that is silent, or a store that is gone, stops no other."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from torch.distributed import HashStore

from accel_train.distributed import exchange
from accel_train.distributed.exchange import Exchange

LONG, SHORT = 60.0, 0.01


def on_all(count: int, work: Callable[[Exchange], Any], seconds: float = LONG) -> list[Any]:
    """Return what each of several threads returns, each with the exchange of a rank."""
    store, results = HashStore(), [None] * count

    def run(rank: int) -> None:
        results[rank] = work(Exchange(store, rank, count, seconds))

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_everyone_gets_all_values_by_rank() -> None:
    assert on_all(3, lambda one: one.everyones("x", [one.rank])) == [[[0], [1], [2]]] * 3


def test_process_alone_gets_its_own_value() -> None:
    alone = Exchange(None, 0, 1, SHORT)
    assert (alone.everyones("x", 5), alone.clock_offset()) == ([5], (0.0, 0.0))
    alone.close()


def test_silent_process_has_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "_SLACK", 0.0)
    one = Exchange(HashStore(), 0, 2, SHORT)
    assert one.everyones("x", 5) == [5, None]
    one.close()  # does not wait for it


def test_clocks_of_one_host_agree() -> None:
    first, second = on_all(2, lambda one: one.clock_offset())
    assert first == (0.0, 0.0)
    assert second[0] <= 0.0 <= second[1]


def test_store_that_is_gone_gives_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(HashStore):
        def set(self, *_: object) -> None:
            raise RuntimeError("Connection reset by peer")

    one = Exchange(Gone(), 0, 2, LONG)
    assert one.everyones("x", 5) == [None, None]
    assert one.everyones("y", 5) == [None, None]


def test_rank_0_waits_until_the_others_have_read() -> None:
    assert on_all(3, lambda one: one.close()) == [None] * 3
