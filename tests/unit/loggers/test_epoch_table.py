"""Rows of epochs in windows of any width."""

from dataclasses import replace

import pytest
from helpers.run_events import epoch_end, started

from accel_train.loggers.epoch_table import fitting_columns, header, row

ALONE = started(batch_size=64, global_batch=64)


@pytest.mark.parametrize("width", [1, 7, 20, 40, 60, 79, 80, 120])
def test_columns_fit_and_the_most_important_stay(width: int) -> None:
    columns = fitting_columns(ALONE, width)
    assert len(header(columns)) <= max(width, 7)
    assert columns[0].name == "epoch"
    assert (len(columns) == 8) == (width >= 80)


def test_large_numbers_stay_in_their_columns() -> None:
    columns = fitting_columns(ALONE, 80)
    large = replace(
        epoch_end(1), epoch=100, train_loss=1e6, val_loss=1e30, lr=1.2345e-5, images_per_second=1.2e6, seconds=1e5
    )
    assert len(row(columns, started(epochs=100), large)) == len(header(columns))


def test_ema_accuracy_has_a_column_only_with_ema() -> None:
    averaged = replace(epoch_end(1), ema_val_accuracy=0.95)
    columns = fitting_columns(started(ema_half_life=1000.0), 120)
    assert "ema" not in header(fitting_columns(ALONE, 120))
    assert "ema" in header(columns)
    assert "0.9500" in row(columns, started(), averaged)


def test_balanced_accuracy_has_a_column_only_if_it_is_wanted() -> None:
    columns = fitting_columns(started({"balance": "weights"}), 120)
    assert "balanced" not in header(fitting_columns(ALONE, 120))
    assert "val accuracy  balanced" in header(columns)
    assert "0.9031    0.7500" in row(columns, started(), replace(epoch_end(1), val_balanced_accuracy=0.75))


def test_noise_scale_has_a_column_with_several_micro_batches_where_it_fits() -> None:
    accumulating = started(batch_size=32, global_batch=64)
    assert "noise scale" not in header(fitting_columns(ALONE, 120))
    assert "noise scale" not in header(fitting_columns(accumulating, 92))
    columns = fitting_columns(accumulating, 93)
    assert "noise scale" in header(columns)
    for value, text in ((None, "–"), (12_345.6, "12,000"), (0.0, "0"), (9.96, "10")):
        line = row(columns, accumulating, replace(epoch_end(1), noise_scale=value))
        assert text in line.split()
        assert len(line) == 93
