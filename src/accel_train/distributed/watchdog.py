"""Watchdog: reports and kills a hung rank."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psutil

from accel_train.distributed import process_group
from accel_train.distributed.schedulers import rank_in
from accel_train.errors import UserError
from accel_train.loggers.text import write_to_stderr

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

_PERIOD_SECONDS = 1.0
_ASLEEP_SECONDS = 5.0
"""A watchdog thread that did not run for this long was suspended with its process, so it missed the others' ticks."""

_SECONDS_OF_SILENCE = 2.5
_MOST_NAMED = 8
_NEVER = timedelta(days=7)


@dataclass(frozen=True)
class Peer:
    """State of another process as last read; times are seconds of this process's monotonic clock."""

    rank: int
    ticked_at: float
    beat_at: float
    ticks: int = -1
    beat: int = -1
    host: str | None = None
    """None until it has written its first entry."""
    pid: int = 0
    process: psutil.Process | None = None
    """None if it is on another machine."""

    def __str__(self) -> str:
        return f"rank {self.rank} (process {self.pid} on {self.host})" if self.host else f"rank {self.rank}"

    @property
    def is_elsewhere(self) -> bool:
        """True if it is known to be on another machine."""
        return self.host is not None and self.process is None

    def heard(self, entry: bytes, now: float) -> Peer:
        """Return the state after reading its entry in the store."""
        host, pid, ticks, beat = json.loads(entry)
        peer = self if self.host else replace(self, host=host, pid=pid, process=_find(self.rank, host, pid))
        if ticks != peer.ticks:
            peer = replace(peer, ticks=ticks, ticked_at=now)
        return peer if beat == peer.beat else replace(peer, beat=beat, beat_at=now)


def holding_up(
    peers: Collection[Peer], ticks: int, timeout: float, *, awake_since: float, read_at: float
) -> list[Peer]:
    """Return the peers that a process with `ticks` ticks waits for: those without heartbeat, else the furthest behind.

    Peers were last read at `read_at`; silence before `awake_since` is ignored.
    """
    silent = [peer for peer in peers if read_at - max(peer.beat_at, awake_since) >= timeout]
    lowest = min((peer.ticks for peer in peers), default=ticks)
    late = [
        peer for peer in peers if peer.ticks == lowest < ticks and read_at - max(peer.ticked_at, awake_since) >= timeout
    ]
    return silent or late


class Watchdog:
    """Watches the other processes from threads of its own.

    Every process counts a tick where it may wait for others. One that has not ticked for `timeout` seconds kills the
    peers that it waits for and exits with code 1: a peer without a heartbeat, or one that has not ticked for as long
    although it is behind. If all are equally far, all compute, and nothing happens.

    `report` gets a line for each process that is killed; this process exits right after.
    """

    def __init__(self, rank: int, world_size: int, timeout: float, report: Callable[[str], None] | None = None) -> None:
        self._rank = rank
        self._timeout = timeout
        self._report = report or (lambda line: write_to_stderr(f"{line}\n"))
        self._ticks = 0
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._exchange, self._watch)]
        self._others = [other for other in range(world_size) if other != rank]
        self._peers: dict[int, Peer] = {}
        self._read_at = time.monotonic()

    def start(self, store: Store) -> None:
        """Start watching; all processes call it within `timeout` seconds."""
        self._store = store
        self._store.set_timeout(_NEVER)  # after all processes were suspended it still answers
        self._read_at = now = time.monotonic()
        self._peers = {other: Peer(other, now, now) for other in self._others}
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop watching; all processes call it after their last wait for others, before one works alone."""
        self._stopped.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(timeout=2 * _PERIOD_SECONDS)  # the store may not answer

    def tick(self) -> None:
        """Count a point before or after which this process may wait for others."""
        self._ticks += 1

    def lost(self) -> str:
        """Return which peers show no sign of life for a moment, after one was lost; all processes ask within it.

        If the store does not answer, that is the host of rank 0.
        """
        if not self._peers:
            return "another rank died"
        time.sleep(2 * _PERIOD_SECONDS)  # by now the last beat of a dead peer was read
        read_at, beats = self._read_at, {peer.rank: peer.beat for peer in self._peers.values()}
        time.sleep(_SECONDS_OF_SILENCE)
        peers = list(self._peers.values())
        if self._read_at > read_at:
            peers = [peer for peer in peers if peer.beat == beats[peer.rank]]
        elif self._rank != 0:
            peers = peers[:1]
        named = ", ".join(map(str, peers[:_MOST_NAMED]))
        return f"{named}{', …' * (len(peers) > _MOST_NAMED)} died" if peers else "another rank died"

    def _exchange(self) -> None:
        """Write this process's state and read the others', while the store answers."""
        host, pid, beat = socket.gethostname(), os.getpid(), 0
        with suppress(RuntimeError):  # a store that is gone is as silent as one that hangs: see _hung
            while not self._stopped.is_set():
                self._store.set(f"peers/{self._rank}", json.dumps([host, pid, self._ticks, beat]))
                self._read()
                beat += 1
                self._stopped.wait(_PERIOD_SECONDS)

    def _read(self) -> None:
        started = [peer for peer in self._peers.values() if peer.host or self._store.check([f"peers/{peer.rank}"])]
        entries = self._store.multi_get([f"peers/{peer.rank}" for peer in started]) if started else []
        now = time.monotonic()
        for peer, entry in zip(started, entries, strict=True):
            self._peers[peer.rank] = peer.heard(entry, now)
        self._read_at = now

    def _watch(self) -> None:
        ticks = self._ticks
        ticked_at = awake_since = last = time.monotonic()
        while not self._stopped.wait(_PERIOD_SECONDS):
            now = time.monotonic()
            if now - last > _ASLEEP_SECONDS:
                awake_since = now
            last = now
            if self._ticks != ticks:
                ticks, ticked_at = self._ticks, now
            if now - max(ticked_at, awake_since) >= self._timeout:
                self._end(self._hung(now, awake_since))

    def _hung(self, now: float, awake_since: float) -> list[Peer]:
        # If the store does not answer, nothing is known of the other ranks: the host of rank 0 is at fault.
        store_silent = now - max(self._read_at, awake_since) >= self._timeout
        if store_silent and self._rank != 0 and (not _launcher_holds_store() or self._peers[0].is_elsewhere):
            return [self._peers[0]]
        peers = list(self._peers.values())
        return holding_up(peers, self._ticks, self._timeout, awake_since=awake_since, read_at=self._read_at)

    def _end(self, hung: list[Peer]) -> None:
        if not hung:
            return
        try:
            for peer in hung:
                self._report(_end_peer(peer, self._timeout))
        finally:
            os._exit(1)


def start_watchdog(watchdog: Watchdog, timeout: int) -> None:
    """Collective: start a watchdog, unless the process is alone or MPI manages the processes."""
    import torch.distributed

    if torch.distributed.is_initialized() and torch.distributed.get_backend() != "mpi":
        watchdog.start(process_group.connect(timeout))


def _find(rank: int, host: str, pid: int) -> psutil.Process | None:
    """Return the process if it is on this machine; two hosts or containers may have the same name."""
    if host == socket.gethostname():
        with suppress(psutil.Error, UserError, ValueError):
            process = psutil.Process(pid)
            if rank_in(process.environ()) == rank:
                return process
    return None


def _end_peer(peer: Peer, timeout: float) -> str:
    """Kill a process if it is on this machine; return a line that names it and the outcome."""
    limit = f"{timeout:g} s (--timeout)"
    if peer.host is None:
        return f"{peer} did not start within {limit}"
    outcome = "on another machine, so not killed from here"
    if peer.process:
        outcome = "killed"
        try:
            workers = peer.process.children(recursive=True)
            peer.process.kill()  # psutil refuses if the PID was reused
            _kill(workers)
        except psutil.NoSuchProcess:
            outcome = "it has ended"
    return f"{peer} has not answered for {limit}: {outcome}"


def _kill(workers: list[psutil.Process]) -> None:
    """Kill the loader workers of a process: a worker that hangs may ignore SIGTERM."""
    for worker in workers:
        with suppress(psutil.NoSuchProcess):
            worker.kill()


def _launcher_holds_store() -> bool:
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
