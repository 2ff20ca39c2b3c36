"""How processes share the work, one file a strategy."""

from accel_train.config.import_string import import_object
from accel_train.config.strategies import STRATEGIES
from accel_train.distributed.strategies.base import Strategy


def load_strategy(name: str) -> Strategy:
    """Import and return a strategy of the table; only the one that runs is imported."""
    strategy: Strategy = import_object(STRATEGIES[name])()
    return strategy
