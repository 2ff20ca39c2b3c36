"""Each strategy of the table has all members of the protocol."""

import inspect
from collections.abc import Collection
from typing import Any

import pytest

from accel_train.config.options import TrainConfig
from accel_train.config.strategies import STRATEGIES
from accel_train.distributed.strategies import load_strategy
from accel_train.distributed.strategies.base import Strategy

OPTIONS: dict[str, dict[str, Any]] = {
    "hsdp": {"shard_size": 2},
    "pipeline": {"pipeline_stages": 2, "pipeline_schedule": "gpipe", "pipeline_split": ("fc",)},
}
TYPES = {"name": str, "variables": str, "stages": int, "replica_group": type(None), "elsewhere": Collection}
MEMBERS = {name: member for name, member in vars(Strategy).items() if not name.startswith("_")}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_all_members_of_the_protocol(name: str) -> None:
    strategy = load_strategy(name, OPTIONS.get(name, {}))
    for member, declared in MEMBERS.items():
        found = getattr(strategy, member)
        if isinstance(declared, property):
            assert isinstance(found, TYPES.get(member, bool))
        else:
            parameters = list(inspect.signature(declared).parameters)[1:]  # without self
            assert list(inspect.signature(found).parameters) == parameters


def test_names_of_strategies_are_distinct() -> None:
    found = [load_strategy(name, OPTIONS.get(name, {})).name for name in STRATEGIES]
    assert len(set(found)) == len(found)
    assert [name.lower() for name in found] == list(STRATEGIES)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_takes_the_options_of_its_row(name: str) -> None:
    assert set(OPTIONS.get(name, {})) == set(STRATEGIES[name].options)
    assert set(STRATEGIES[name].options) <= set(TrainConfig.model_fields)
