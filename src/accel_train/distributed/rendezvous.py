"""Brings the processes of a run together: each introduces itself to rank 0, which checks that they belong to one run.

Rank 0 knows of no process that introduced itself before it: one that lives does so again. So what the attempt before a
restart has left in the store of the launcher, whose restarts some launchers do not count, is not taken for a process.
"""

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from accel_train.errors import LocalError, UserError

HINT = (
    "start all of them with the same MASTER_ADDR and MASTER_PORT, raise --timeout, "
    "or name the network interface in GLOO_SOCKET_IFNAME"
)
_MOST_NAMED = 8
_POLL_SECONDS = 0.01
"""For few processes; many would keep the store busy."""
_MANY = 200
_SECONDS_TO_TELL = 1.0
"""In which the others read why rank 0 ends, which may hold the store."""


@dataclass(frozen=True)
class Introduction:
    """A process, and what it must have in common with all others."""

    rank: int
    host: str
    pid: int
    common: Mapping[str, str]
    """By name: versions, options that decide the result, what was chosen for this process."""
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host}"

    @property
    def process(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def as_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str | bytes) -> Self:
        """Read what another process has introduced itself with."""
        return cls(**json.loads(text))


def meet(store: Store, own: Introduction, world_size: int, timeout: int, deadline: float) -> Store:
    """Collective: wait until all processes are there; return a store that only they use.

    Raises:
        UserError: some have not come by the deadline, two are the same rank, or one does not belong to the run.
    """
    group = _Host(store, own, world_size, timeout).receive(deadline) if own.rank == 0 else ""
    group = group or _Guest(store, own, world_size, timeout).arrive(deadline)
    store.set(_group_of(own.rank), group)
    return PrefixStore(group, store)


def met_in(store: Store, rank: int) -> Store:
    """Return the store of the group that a rank has met."""
    return PrefixStore(store.get(_group_of(rank)).decode(), store)


class _Guest:
    """A process that waits for rank 0."""

    def __init__(self, store: Store, own: Introduction, world_size: int, timeout: int) -> None:
        self._store, self._own, self._world_size, self._timeout = store, own, world_size, timeout
        self._written = False
        self._predecessor: Introduction | None = None

    def introduce(self) -> None:
        """Write who this is, again if that is gone.

        Raises:
            UserError: another living process has the same rank.
        """
        key, text = _introduced(self._own.rank), self._own.as_text
        found = self._store.compare_set(key, "", text).decode()
        if found != text:
            other = Introduction.of(found)
            self._store.set(key, text)  # so that it notices too, if it lives
            if self._written:
                raise _double(self._own, other)
            self._predecessor = other
        self._written = True

    def arrive(self, deadline: float) -> str:
        """Wait for the answer of rank 0; return the name of the group."""
        while not self._store.check([self._own.token]):
            self.introduce()
            if time.monotonic() > deadline + _SECONDS_TO_TELL:  # rank 0, which knows more, may have come later
                raise self._unanswered()
            _pause(self._world_size)
        group, message, hint = json.loads(self._store.get(self._own.token))
        if message:
            raise UserError(message, hint)
        return str(group)

    def _unanswered(self) -> UserError:
        ranks = range(self._world_size)
        if missing := [rank for rank in ranks if not self._store.check([_introduced(rank)])]:
            return absence(missing, self._timeout)
        message = f"rank 0 has not answered {self._own} within {self._timeout} s"
        if self._predecessor:
            message += f", and {self._predecessor.process} had joined as rank {self._own.rank} before"
        return LocalError(message, "give each host its own machine rank, or raise --timeout")


class _Host:
    """Rank 0, which waits for all others and answers them."""

    def __init__(self, store: Store, own: Introduction, world_size: int, timeout: int) -> None:
        self._store, self._own, self._timeout = store, own, timeout
        self._others = range(1, world_size)
        self._guests: dict[int, Introduction] = {}

    def receive(self, deadline: float) -> str:
        """Wait for all others; return the name of the group."""
        own = _Guest(self._store, self._own, len(self._others) + 1, self._timeout)
        for rank in self._others:
            self._store.delete_key(_introduced(rank))
        try:
            while missing := [rank for rank in self._others if not self._has_come(rank)]:
                own.introduce()
                if time.monotonic() > deadline:
                    raise absence(missing, self._timeout, [self._own, *self._guests.values()])
                _pause(len(self._others))
        except UserError as error:
            self._answer("", error.message, error.hint)
            time.sleep(_SECONDS_TO_TELL)
            raise
        group = f"group{self._store.add('groups', 1)}"
        self._answer(group)
        return group

    def _has_come(self, rank: int) -> bool:
        if rank not in self._guests and self._store.check([_introduced(rank)]):
            self._guests[rank] = Introduction.of(self._store.get(_introduced(rank)))
            refuse_stranger(self._guests[rank], self._own)
        return rank in self._guests

    def _answer(self, group: str, *refusal: str) -> None:
        for guest in self._guests.values():
            self._store.set(guest.token, json.dumps([group, *(refusal or ("", ""))]))


def refuse_stranger(guest: Introduction, host: Introduction) -> None:
    """Check that a process belongs to the run of rank 0.

    Raises:
        UserError: it was started otherwise, or with other versions.
    """
    names = [*host.common, *(name for name in guest.common if name not in host.common)]
    if different := [name for name in names if guest.common.get(name) != host.common.get(name)]:
        has, has_not = (" and ".join(_shown(one.common, name) for name in different) for one in (guest, host))
        raise UserError(
            f"{guest} has {has}, but {host} has {has_not}",
            "start all hosts with the same command, options and versions",
        )


def absence(missing: list[int], timeout: int, present: list[Introduction] | None = None) -> UserError:
    """Return the error that names ranks that did not join, and the hosts that did."""
    named = ", ".join(map(str, missing[:_MOST_NAMED])) + ", …" * (len(missing) > _MOST_NAMED)
    message = f"rank{'s' if len(missing) > 1 else ''} {named} did not join within {timeout} s"
    if present:
        hosts = list(dict.fromkeys(one.host for one in present))
        message += f": all that came are on {', '.join(hosts[:_MOST_NAMED])}{', …' * (len(hosts) > _MOST_NAMED)}"
    return (LocalError if 0 in missing else UserError)(message, HINT)  # else rank 0 reports it


def _double(own: Introduction, other: Introduction) -> UserError:
    return LocalError(
        f"two processes are rank {own.rank}: {own.process} and {other.process}",
        "give each host its own machine rank (--machine_rank, --node_rank)",
    )


def _pause(processes: int) -> None:
    time.sleep(_POLL_SECONDS * (1 + processes / _MANY))


def _shown(common: Mapping[str, str], name: str) -> str:
    return f"{name} {common[name]}" if name in common else f"no {name}"


def _introduced(rank: int) -> str:
    return f"introduced{rank}"


def _group_of(rank: int) -> str:
    return f"group of rank {rank}"
