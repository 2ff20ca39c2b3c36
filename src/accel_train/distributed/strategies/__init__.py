"""How processes share the work, one file a strategy."""

from collections.abc import Mapping
from typing import Any

from accel_train.config.import_string import import_object
from accel_train.config.strategies import STRATEGIES
from accel_train.distributed.strategies.base import Strategy


def load_strategy(name: str, options: Mapping[str, Any]) -> Strategy:
    """Import a strategy of the table and return it with its options; only the one that runs is imported."""
    strategy: Strategy = import_object(STRATEGIES[name].make)(**options)
    return strategy
