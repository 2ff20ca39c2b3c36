"""What a search for the learning rate may be asked for."""

from pathlib import Path

import pytest

from accel_train.config.find_lr_options import FindLrConfig
from accel_train.config.load import make_config
from accel_train.errors import UserError


def test_rates_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(UserError, match=r"--start-lr 1 is not below --end-lr 0\.1") as refused:
        make_config(FindLrConfig, {"start_lr": 1.0, "end_lr": 0.1}, {})
    assert refused.value.hint == "use --start-lr 0.1 --end-lr 1"
    with pytest.raises(UserError) as refused:
        make_config(FindLrConfig, {"start_lr": 0.1, "end_lr": 0.1}, {})
    assert refused.value.hint == "use --end-lr 10"


def test_few_updates_are_refused() -> None:
    with pytest.raises(UserError, match="--updates 19"):
        make_config(FindLrConfig, {"updates": 19}, {})


def test_plot_that_cannot_be_written_is_refused_before_the_test(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--png"):
        make_config(FindLrConfig, {"png": str(tmp_path / "missing" / "range.png")}, {})
