"""A watchdog finds the ranks that it waits for from what it has read of them, and no other rank is blamed."""

import os
import socket
import time
from dataclasses import replace

import pytest
from torch.distributed import HashStore

from accel_train.distributed import watchdog as module
from accel_train.distributed.watchdog import Peer, Watchdog, holding_up


def peer(rank: int, ticks: int, *, ticked_at: float = 0, beat_at: float = 100) -> Peer:
    return Peer(rank, ticked_at=ticked_at, beat_at=beat_at, ticks=ticks, host="host", pid=1)


SILENT = peer(1, 7, beat_at=80)
BEHIND = peer(2, 6)
LEVEL = peer(3, 7)


@pytest.mark.parametrize(
    ("peers", "expected"),
    [
        ([], []),
        ([LEVEL], []),  # equally far: all compute
        ([peer(1, 8)], []),  # this process itself is late
        ([BEHIND, LEVEL], [2]),
        ([peer(1, 6, ticked_at=95), LEVEL], []),  # slow, but it ticks
        ([peer(1, 5, ticked_at=95), BEHIND], []),  # the second waits for the first, which ticks
        ([peer(1, 6), BEHIND, LEVEL], [1, 2]),
        ([SILENT, LEVEL], [1]),
        ([SILENT, BEHIND], [1]),  # the second waits for the first
        ([replace(SILENT, ticks=9), LEVEL], [1]),
        ([peer(1, 7, beat_at=91)], []),
    ],
)
def test_silent_or_furthest_behind_peer_is_found(peers: list[Peer], expected: list[int]) -> None:
    assert [p.rank for p in holding_up(peers, 7, 10, awake_since=0, read_at=100)] == expected


@pytest.mark.parametrize("hung", [SILENT, BEHIND])
def test_time_in_which_this_process_was_suspended_is_ignored(hung: Peer) -> None:
    assert holding_up([hung], 7, 10, awake_since=90, read_at=100) == [hung]
    assert holding_up([hung], 7, 10, awake_since=91, read_at=100) == []


def test_peer_ticks_and_beats_as_its_entries_change() -> None:
    first = Peer(1, 0, 0).heard(b'["elsewhere", 12, 3, 0]', 1)
    assert (first.host, first.pid, first.ticks, first.ticked_at, first.beat_at) == ("elsewhere", 12, 3, 1, 1)
    beating = first.heard(b'["elsewhere", 12, 3, 1]', 2)
    assert (beating.ticked_at, beating.beat_at) == (1, 2)
    silent = beating.heard(b'["elsewhere", 12, 3, 1]', 3)
    assert silent == beating
    assert silent.heard(b'["elsewhere", 12, 4, 2]', 4).ticked_at == 4


@pytest.fixture
def exits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the codes with which watchdogs would have ended this process; their periods are short."""
    codes: list[int] = []
    monkeypatch.setattr(module, "_PERIOD_SECONDS", 0.01)
    monkeypatch.setattr(module.os, "_exit", codes.append)
    return codes


def test_peer_that_never_starts_is_reported(exits: list[int]) -> None:
    lines: list[str] = []
    watchdog = Watchdog(0, 2, 0.1, lines.append)
    watchdog.start(HashStore())
    deadline = time.monotonic() + 10
    while not exits and time.monotonic() < deadline:
        time.sleep(0.01)
    watchdog.stop()
    assert lines[0] == "rank 1 did not start within 0.1 s (--timeout)"
    assert exits[0] == 1


def test_rank_that_is_behind_is_reported_by_the_others_only(exits: list[int]) -> None:
    store, lines = HashStore(), {rank: list[str]() for rank in range(3)}
    watchdogs = [Watchdog(rank, 3, 0.3, lines[rank].append) for rank in range(3)]
    for watchdog in watchdogs:
        watchdog.start(store)
    for rank in (0, 2):
        watchdogs[rank].tick()  # rank 1 hangs before
    deadline = time.monotonic() + 10
    while not (lines[0] and lines[2]) and time.monotonic() < deadline:
        time.sleep(0.01)
    for watchdog in watchdogs:
        watchdog.stop()
    assert all(line.startswith("rank 1 (process ") for line in lines[0] + lines[2])
    assert lines[1] == []


@pytest.mark.parametrize("ticks", [False, True])
def test_ranks_that_are_equally_far_are_not_killed(exits: list[int], ticks: bool) -> None:
    store, lines = HashStore(), list[str]()
    watchdogs = [Watchdog(rank, 2, 0.1, lines.append) for rank in range(2)]
    for watchdog in watchdogs:
        watchdog.start(store)
    for _ in range(30):
        for watchdog in watchdogs if ticks else ():
            watchdog.tick()
        time.sleep(0.01)
    for watchdog in watchdogs:
        watchdog.stop()
    assert (lines, exits) == ([], [])


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PERIOD_SECONDS", 0.02)
    monkeypatch.setattr(module, "_SECONDS_OF_SILENCE", 0.3)


@pytest.mark.usefixtures("brief")
def test_lost_peer_is_the_one_without_heartbeat() -> None:
    store = HashStore()
    watchdogs = [Watchdog(rank, 3, 60) for rank in range(3)]
    for watchdog in watchdogs:
        watchdog.start(store)
    time.sleep(0.1)
    watchdogs[2].stop()
    assert watchdogs[0].lost() == f"rank 2 (process {os.getpid()} on {socket.gethostname()}) died"
    watchdogs[0].stop()
    watchdogs[1].stop()


class Lost(HashStore):
    """A store whose host has died."""

    def check(self, keys: list[str]) -> bool:
        raise RuntimeError("Connection reset by peer")


@pytest.mark.usefixtures("brief")
def test_store_that_is_gone_is_the_loss_of_rank_0() -> None:
    watchdog = Watchdog(1, 3, 60)
    watchdog.start(Lost())
    assert watchdog.lost() == "rank 0 died"
    watchdog.stop()


def test_loss_in_a_run_without_watchdog_is_not_named() -> None:
    assert Watchdog(1, 3, 60).lost() == "another rank died"


def test_peer_on_another_machine_is_elsewhere() -> None:
    assert not Peer(1, 0, 0).is_elsewhere  # not known yet
    assert Peer(1, 0, 0).heard(b'["elsewhere", 12, 3, 0]', 1).is_elsewhere


def test_single_process_waits_for_nobody(exits: list[int]) -> None:
    watchdog = Watchdog(0, 1, 0.05)
    watchdog.start(HashStore())
    time.sleep(0.2)
    watchdog.stop()
    assert exits == []


def test_watchdog_that_was_not_started_can_tick_and_stop() -> None:
    watchdog = Watchdog(0, 2, 1)
    watchdog.tick()
    watchdog.stop()
