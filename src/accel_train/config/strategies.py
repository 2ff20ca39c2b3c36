"""The strategies by which processes share the work of training, one row each: class and options."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from accel_train.errors import UserError


@dataclass(frozen=True)
class StrategySpec:
    """All that a run needs to know of a strategy."""

    make: str
    """Import string of its class; called with its options as keyword arguments."""
    needs: tuple[str, ...] = ()
    """Fields of the config that must be given with it, and only with it."""
    takes: tuple[str, ...] = ()
    """Further fields that may be given with it, and only with it."""

    @property
    def options(self) -> tuple[str, ...]:
        """All fields of its own."""
        return self.needs + self.takes


STRATEGIES: dict[str, StrategySpec] = {
    "ddp": StrategySpec("accel_train.distributed.strategies.ddp:DDP"),
    "fsdp2": StrategySpec("accel_train.distributed.strategies.fsdp2:FSDP2"),
    "hsdp": StrategySpec("accel_train.distributed.strategies.hsdp:HSDP", needs=("shard_size",)),
    "dp": StrategySpec("accel_train.distributed.strategies.dp:DP"),
    "pipeline": StrategySpec(
        "accel_train.distributed.strategies.pipeline:Pipeline",
        needs=("pipeline_stages",),
        takes=("pipeline_schedule", "pipeline_split"),
    ),
}
"""By the value of ``--strategy``."""

STRATEGY_OPTIONS = tuple(dict.fromkeys(name for spec in STRATEGIES.values() for name in spec.options))
"""The fields that belong to a strategy."""


def check_options(strategy: str, given: Mapping[str, Any]) -> None:
    """Check that the options given are those of a strategy.

    Raises:
        UserError: one has no effect with it, or is missing.
    """
    spec = STRATEGIES[strategy]
    for name, value in given.items():
        if name not in spec.options:
            theirs = " or ".join(each for each, of in STRATEGIES.items() if name in of.options)
            raise UserError(
                f"{_flag(name)} {value} has no effect with --strategy {strategy}",
                f"leave it out, or add --strategy {theirs}",
            )
    for name in spec.needs:
        if name not in given:
            raise UserError(
                f"--strategy {strategy} needs {_flag(name)}", f"add {_flag(name)} 2, the processes per replica"
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
