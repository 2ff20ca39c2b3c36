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

_OF_SEVERAL = {"fsdp2": "FSDP2", "hsdp": "HSDP", "pipeline": "Pipeline"}
"""Names of the strategies that have no effect on a single process."""

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


def check_processes(strategy: str, options: Mapping[str, Any], processes: int) -> None:
    """Check that a strategy can share the work among a number of processes; `options` are its own.

    Raises:
        UserError: it cannot.
    """
    if strategy == "dp" and processes > 1:
        raise UserError(
            f"--strategy dp is for one process, and {processes} were started",
            f"use DDP: accel_train train --processes {processes} …, without --strategy",
        )
    if strategy in _OF_SEVERAL and processes == 1:
        raise UserError(
            f"{_OF_SEVERAL[strategy]} has no effect on a single process", "use --strategy ddp, or add --processes"
        )
    if strategy == "hsdp":
        _check_shards(options["shard_size"], processes)
    if strategy == "pipeline":
        _check_stages(options["pipeline_stages"], processes)


def _check_shards(size: int, processes: int) -> None:
    fitting = [n for n in range(2, processes) if processes % n == 0]
    if size in fitting:
        return
    if size == processes:
        reason = f"is one replica of {processes} shards, which is FSDP2"
    elif size == 1:
        reason = "shards nothing, which is DDP"
    else:
        reason = f"must divide the {processes} processes"
    sizes = f"choose --shard-size {' or '.join(map(str, fitting))}" if fitting else "start 4 processes or more"
    raise UserError(f"--shard-size {size} {reason}", f"{sizes}, or use --strategy {'ddp' if size == 1 else 'fsdp2'}")


def _check_stages(stages: int, processes: int) -> None:
    fitting = [n for n in range(2, processes + 1) if processes % n == 0]
    if stages not in fitting:
        reason = "cuts nothing, which is DDP" if stages == 1 else f"must divide the {processes} processes"
        raise UserError(
            f"--pipeline-stages {stages} {reason}", f"choose --pipeline-stages {' or '.join(map(str, fitting))}"
        )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
