"""How processes share the work, one file a strategy."""

from importlib import import_module

from accel_train.config.strategies import STRATEGIES
from accel_train.distributed.strategies.base import Strategy


def load_strategy(name: str) -> Strategy:
    """Import and return a strategy of the table; only the one that runs is imported."""
    module, _, attribute = STRATEGIES[name].partition(":")
    strategy: Strategy = getattr(import_module(module), attribute)()
    return strategy
