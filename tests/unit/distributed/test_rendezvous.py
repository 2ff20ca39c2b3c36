"""Processes meet in a store, whatever was left there; one that does not fit is named to all."""

import threading
import time

import pytest
from torch.distributed import HashStore

from accel_train.distributed import rendezvous
from accel_train.distributed.rendezvous import Introduction, absence, meet, met_in
from accel_train.errors import LocalError, UserError


def introduction(rank: int, **common: str) -> Introduction:
    return Introduction(rank, f"host{rank}", 100 + rank, common)


def outcomes(store: HashStore, *own: Introduction, world_size: int = 0, seconds: float = 5) -> list[str]:
    """Let processes meet, each in its thread, and return the group or error of each."""
    found = [""] * len(own)

    def run(i: int, one: Introduction) -> None:
        try:
            meet(store, one, world_size or len(own), 5, time.monotonic() + seconds)
        except UserError as error:
            found[i] = error.message
        else:
            found[i] = store.get(f"group of rank {one.rank}").decode()

    threads = [threading.Thread(target=run, args=(i, one)) for i, one in enumerate(own)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_SECONDS_TO_TELL", 0.2)


def test_each_meeting_is_another_group() -> None:
    store = HashStore()
    assert outcomes(store, introduction(0), introduction(1)) == ["group1"] * 2
    assert outcomes(store, introduction(1), introduction(0)) == ["group2"] * 2
    met_in(store, 0).set("key", "value")
    assert met_in(store, 1).get("key") == b"value"


def test_processes_of_an_earlier_attempt_are_not_met() -> None:
    store = HashStore()
    store.set("introduced1", introduction(1).as_text)
    assert outcomes(store, introduction(0), world_size=2, seconds=0.3) == [
        "rank 1 did not join within 5 s: all that came are on host0"
    ]
    store.set("introduced1", introduction(1, torch="1").as_text)
    assert outcomes(store, introduction(0), introduction(1)) == ["group1"] * 2


@pytest.mark.parametrize(
    ("own", "error"),
    [
        (
            (introduction(0, torch="2.14"), introduction(1, torch="2.13")),
            "rank 1 on host1 has torch 2.13, but rank 0 on host0 has torch 2.14",
        ),
        (
            (introduction(0, **{"--ema": "9"}), introduction(1, **{"--lr": "1"})),
            "rank 1 on host1 has no --ema and --lr 1, but rank 0 on host0 has --ema 9 and no --lr",
        ),
    ],
)
def test_difference_is_told_to_all(own: tuple[Introduction, ...], error: str) -> None:
    assert outcomes(HashStore(), *own) == [error] * 2


def test_stranger_is_refused_before_all_have_come() -> None:
    started = time.monotonic()
    found = outcomes(HashStore(), introduction(0, WORLD_SIZE="3"), introduction(1, WORLD_SIZE="2"), world_size=3)
    assert found == ["rank 1 on host1 has WORLD_SIZE 2, but rank 0 on host0 has WORLD_SIZE 3"] * 2
    assert time.monotonic() - started < 3


@pytest.mark.parametrize("rank", [0, 1])
def test_two_processes_of_one_rank_name_each_other(rank: int) -> None:
    own = [Introduction(rank, host, 7, {}) for host in ("a", "b")]
    found = outcomes(HashStore(), *own, world_size=3)
    assert set(found) == {
        f"two processes are rank {rank}: process 7 on a and process 7 on b",
        f"two processes are rank {rank}: process 7 on b and process 7 on a",
    }


def test_process_that_comes_after_all_of_its_rank_is_told_so() -> None:
    store = HashStore()
    assert outcomes(store, introduction(0), introduction(1)) == ["group1"] * 2
    late = Introduction(1, "other", 7, {})
    store.set("introduced0", "")  # of the group that trains
    assert outcomes(store, late, world_size=2, seconds=0.3) == [
        "rank 0 has not answered rank 1 on other within 5 s, and process 101 on host1 had joined as rank 1 before"
    ]


def test_missing_host_is_named() -> None:
    assert outcomes(HashStore(), introduction(1), world_size=3, seconds=0.3) == ["ranks 0, 2 did not join within 5 s"]


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
    error = absence(missing, 5)
    assert (type(error), error.message) == (kind, message)


def test_hosts_that_came_are_named_once() -> None:
    present = [Introduction(rank, f"node{rank // 2}", rank, {}) for rank in range(20)]
    error = absence([21], 5, present)
    assert error.message.endswith(f"all that came are on {', '.join(f'node{i}' for i in range(8))}, …")
