"""HSDP shards within groups of processes; sizes that do not fit are rejected with those that do."""

import pytest

from accel_train.distributed.strategies.hsdp import HSDP
from accel_train.errors import UserError


@pytest.mark.parametrize(("processes", "size"), [(4, 2), (6, 2), (6, 3), (16, 8)])
def test_size_that_divides_the_processes_is_accepted(processes: int, size: int) -> None:
    HSDP(size).check(processes, "cpu", {})


@pytest.mark.parametrize(
    ("processes", "size", "error", "hint"),
    [
        (4, 1, "--shard-size 1 shards nothing, which is DDP", "choose --shard-size 2, or use --strategy ddp"),
        (
            *(4, 4, "--shard-size 4 is one replica of 4 shards, which is FSDP2"),
            "choose --shard-size 2, or use --strategy fsdp2",
        ),
        (
            *(12, 5, "--shard-size 5 must divide the 12 processes"),
            "choose --shard-size 2 or 3 or 4 or 6, or use --strategy fsdp2",
        ),
        (2, 8, "--shard-size 8 must divide the 2 processes", "start 4 processes or more, or use --strategy fsdp2"),
        (3, 2, "--shard-size 2 must divide the 3 processes", "start 4 processes or more, or use --strategy fsdp2"),
        (1, 2, "HSDP has no effect on a single process", "use --strategy ddp, or add --processes"),
    ],
)
def test_size_that_does_not_fit_is_rejected(processes: int, size: int, error: str, hint: str) -> None:
    with pytest.raises(UserError) as rejected:
        HSDP(size).check(processes, "cpu", {})
    assert (rejected.value.message, rejected.value.hint) == (error, hint)


def test_settings_of_fsdp_that_are_not_supported_are_rejected() -> None:
    with pytest.raises(UserError, match="FSDP_VERSION=1 asks for FSDP 1"):
        HSDP(2).check(4, "cpu", {"FSDP_VERSION": "1"})


def test_neighbouring_ranks_are_one_replica() -> None:
    assert [HSDP(3).part(rank) for rank in range(6)] == [0, 1, 2, 0, 1, 2]
    assert HSDP(3).describe(6) == "HSDP: 2 replicas × 3 shards"
