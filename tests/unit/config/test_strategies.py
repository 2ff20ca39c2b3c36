"""An option of a strategy is taken with that strategy only."""

from typing import Any

import pytest

from accel_train.config.strategies import STRATEGIES, STRATEGY_OPTIONS, check_options
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
