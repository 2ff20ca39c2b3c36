"""Each strategy of the table has all members of the protocol."""

import inspect

import pytest

from accel_train.config.strategies import STRATEGIES
from accel_train.distributed.strategies import load_strategy
from accel_train.distributed.strategies.base import Strategy

MEMBERS = {name: member for name, member in vars(Strategy).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_all_members_of_the_protocol(name: str) -> None:
    strategy = load_strategy(name)
    for member, declared in MEMBERS.items():
        found = getattr(strategy, member)
        if isinstance(declared, property):
            assert isinstance(found, str if member == "name" else bool)
        else:
            parameters = list(inspect.signature(declared).parameters)[1:]  # without self
            assert list(inspect.signature(found).parameters) == parameters


def test_names_of_strategies_are_distinct() -> None:
    assert [load_strategy(name).name for name in STRATEGIES] == ["DDP", "FSDP2"]
