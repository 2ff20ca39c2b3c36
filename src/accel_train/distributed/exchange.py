"""Exchanges values between processes that may be unable to form a group: through the store, with time limits."""

import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any, Self

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from accel_train.distributed.environment import launched_rank, world_size
from accel_train.distributed.meeting_store import open_store
from accel_train.distributed.rendezvous import Introduction, meet
from accel_train.errors import LocalError
from accel_train.system.time_limit import within

_POLL_SECONDS = 0.01
_SLACK = 5.0
"""Seconds that the others have after the limit of a check, to report that it hangs."""
_SECONDS_TO_READ = 5.0


class Exchange:
    """The processes of a run, by rank, which exchange values of JSON; one that hangs or dies stops no other."""

    def __init__(self, store: Store | None, rank: int, count: int, seconds: float) -> None:
        self._store, self.rank, self.count, self._seconds = store, rank, count, seconds
        self._lost = False
        self._silent: set[int] = set()

    @classmethod
    def open(cls, seconds: int) -> Self:
        """Collective: wait until all processes are there.

        Raises:
            UserError: some have not come in time, or two have one rank.
        """
        rank, count = launched_rank(), world_size()
        if count == 1:
            return cls(None, rank, count, seconds)
        own = Introduction(rank, socket.gethostname(), os.getpid(), {})
        deadline = time.monotonic() + seconds
        try:
            store = open_store(rank, seconds, deadline)
            return cls(PrefixStore("doctor", meet(store, own, count, seconds, deadline)), rank, count, seconds)
        except RuntimeError:  # of torch's store
            raise LocalError(f"rank 0 has left before {own} could join", "read what rank 0 has reported") from None

    def everyones(self, name: str, own: Any) -> list[Any]:
        """Collective: return the JSON value of every process, by rank; None for one that has not given it in time.

        The time is the limit of the check that made the value, and a little more.
        """
        if self._store is None:
            return [own]
        self._set(f"{name}/{self.rank}", own)
        keys = [f"{name}/{rank}" for rank in range(self.count)]
        self._wait(keys, self._seconds + _SLACK)
        values = [self._get(key) for key in keys]
        self._silent |= {rank for rank, value in enumerate(values) if value is None}
        return values

    def clock_offset(self) -> tuple[float, float]:
        """Collective: return how far the clock of this host is ahead of rank 0's, in seconds: least and most.

        Rank 0 reads its clock after all others have read theirs once, and before they read it again.
        """
        if self._store is None:
            return 0.0, 0.0
        before = time.time()
        self._set(f"before/{self.rank}", True)
        if self.rank == 0:
            self._wait([f"before/{rank}" for rank in range(self.count)], self._seconds)
            self._set("clock", time.time())
            return 0.0, 0.0
        self._wait(["clock"], self._seconds)
        after = time.time()
        of_rank_0 = self._get("clock")
        return (0.0, 0.0) if of_rank_0 is None else (before - of_rank_0, after - of_rank_0)

    def close(self) -> None:
        """Collective: let the others wait until rank 0 has reported; a launcher ends all when the first one ends."""
        if self._store is None:
            return
        if self.rank == 0:
            self._set("reported", True)
            there = set(range(1, self.count)) - self._silent
            self._wait([f"read/{rank}" for rank in sorted(there)], _SECONDS_TO_READ)
        else:
            self._wait(["reported"], self._seconds)
            self._set(f"read/{self.rank}", True)

    def _set(self, key: str, value: Any) -> None:
        self._limited(lambda store: store.set(key, json.dumps(value)))

    def _has(self, key: str) -> bool:
        return bool(self._limited(lambda store: store.check([key])))

    def _get(self, key: str) -> Any:
        """Return a value; None if it is not there."""
        text = self._limited(lambda store: store.get(key)) if self._has(key) else None
        return None if text is None else json.loads(text)

    def _wait(self, keys: list[str], seconds: float) -> None:
        """Wait until all keys are there, or the time is over."""
        deadline = time.monotonic() + seconds
        for key in keys:
            while not self._has(key) and not self._lost and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS)

    def _limited(self, ask: Callable[[Store], Any]) -> Any:
        """Ask the store; None if it is gone or silent, as that of a dead host."""
        store = self._store
        assert store
        if self._lost:
            return None
        try:
            return within(self._seconds, lambda: ask(store))
        except (TimeoutError, RuntimeError):
            self._lost = True
            return None
