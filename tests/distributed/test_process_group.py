"""Processes of a run find each other and exchange values; the ranks that have not joined are reported."""

import pytest
from helpers.runner import Runner

JOIN = """
import os, sys
from accel_train.distributed import process_group
from accel_train.errors import UserError
timeout, *launched = sys.argv[1:]
os.environ |= dict(zip(("RANK", "WORLD_SIZE"), launched))
try:
    process_group.join("gloo", int(timeout))
    values = process_group.exchange(process_group.host_group(9), [int(os.environ["RANK"]), 2**63 - 1])
    sys.stdout.write(f"{values}\\n")  # at once: print() writes the end of the line by itself
    process_group.leave()
except UserError as error:
    print(error.everywhere, error.message)
"""


def test_joined_processes_exchange_values(run: Runner) -> None:
    ended = run.script("-c", JOIN, "60", processes=2)
    assert ended.out.splitlines() == [str([[0, 2**63 - 1], [1, 2**63 - 1]])] * 2


@pytest.mark.parametrize(
    ("rank", "world_size", "error"),
    [
        (0, 4, "True ranks 1, 2, 3 did not join within 2 s"),
        (1, 2, "False rank 0 did not join within 2 s: nothing listens at 127.0.0.1:"),
    ],
)
def test_missing_ranks_are_reported(run: Runner, rank: int, world_size: int, error: str) -> None:
    ended = run.script("-c", JOIN, "2", str(rank), str(world_size), processes=1)
    assert ended.out.startswith(error), ended
