"""Rows of epochs in windows of any width."""

from dataclasses import replace

import pytest
from helpers.run_events import epoch_end, started

from accel_train.loggers.epoch_table import fitting_columns, header, row


@pytest.mark.parametrize("width", [1, 7, 20, 40, 60, 79, 80, 120])
def test_columns_fit_and_the_most_important_stay(width: int) -> None:
    columns = fitting_columns(width)
    assert len(header(columns)) <= max(width, 7)
    assert columns[0].name == "epoch"
    assert (len(columns) == 8) == (width >= 80)


def test_large_numbers_stay_in_their_columns() -> None:
    columns = fitting_columns(80)
    large = replace(
        epoch_end(1), epoch=100, train_loss=1e6, val_loss=1e30, lr=1.2345e-5, images_per_second=1.2e6, seconds=1e5
    )
    assert len(row(columns, started(epochs=100), large)) == len(header(columns))


def test_ema_accuracy_has_a_column_only_with_ema() -> None:
    averaged = replace(epoch_end(1), ema_val_accuracy=0.95)
    columns = fitting_columns(120, ema=True)
    assert "ema" not in header(fitting_columns(120))
    assert "ema" in header(columns)
    assert "0.9500" in row(columns, started(), averaged)


def test_balanced_accuracy_has_a_column_only_if_it_is_wanted() -> None:
    columns = fitting_columns(120, balanced=True)
    assert "balanced" not in header(fitting_columns(120))
    assert "val accuracy  balanced" in header(columns)
    assert "0.9031    0.7500" in row(columns, started(), replace(epoch_end(1), val_balanced_accuracy=0.75))
