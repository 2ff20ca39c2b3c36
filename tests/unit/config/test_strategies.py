"""An option of a strategy is taken with that strategy only."""

from typing import Any

import pytest

from accel_train.config.strategies import STRATEGIES, STRATEGY_OPTIONS, check_options, check_processes
from accel_train.errors import UserError


@pytest.mark.parametrize(("strategy", "given"), [("ddp", {}), ("fsdp2", {}), ("dp", {}), ("hsdp", {"shard_size": 2})])
def test_options_of_a_strategy_are_accepted(strategy: str, given: dict[str, Any]) -> None:
    check_options(strategy, given)


@pytest.mark.parametrize(
    ("strategy", "given", "error", "hint"),
    [
        (
            *("fsdp2", {"shard_size": 2}, "--shard-size 2 has no effect with --strategy fsdp2"),
            "leave it out, or add --strategy hsdp",
        ),
        ("hsdp", {}, "--strategy hsdp needs --shard-size", "add --shard-size 2, the processes per replica"),
    ],
)
def test_option_without_effect_or_missing_is_rejected(
    strategy: str, given: dict[str, Any], error: str, hint: str
) -> None:
    with pytest.raises(UserError) as rejected:
        check_options(strategy, given)
    assert (rejected.value.message, rejected.value.hint) == (error, hint)


def test_all_options_of_strategies_are_known() -> None:
    assert set(STRATEGY_OPTIONS) == {name for spec in STRATEGIES.values() for name in spec.options}
    assert len(set(STRATEGY_OPTIONS)) == len(STRATEGY_OPTIONS)


@pytest.mark.parametrize(
    ("strategy", "given", "processes"),
    [
        ("ddp", {}, 1),
        ("dp", {}, 1),
        ("fsdp2", {}, 2),
        ("hsdp", {"shard_size": 2}, 4),
        ("pipeline", {"pipeline_stages": 2}, 2),
    ],
)
def test_processes_that_a_strategy_can_use_are_accepted(strategy: str, given: dict[str, Any], processes: int) -> None:
    check_processes(strategy, given, processes)


@pytest.mark.parametrize(
    ("strategy", "given", "processes", "error"),
    [
        ("dp", {}, 4, "--strategy dp is for one process, and 4 were started"),
        ("fsdp2", {}, 1, "FSDP2 has no effect on a single process"),
        ("hsdp", {"shard_size": 3}, 4, "--shard-size 3 must divide the 4 processes"),
        ("pipeline", {"pipeline_stages": 3}, 2, "--pipeline-stages 3 must divide the 2 processes"),
    ],
)
def test_processes_that_a_strategy_cannot_use_are_refused(
    strategy: str, given: dict[str, Any], processes: int, error: str
) -> None:
    with pytest.raises(UserError) as refused:
        check_processes(strategy, given, processes)
    assert refused.value.message == error
