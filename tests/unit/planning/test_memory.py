"""Memory is a line of the batch size at each moment, and its peak the highest of these."""

import pytest

from accel_train.planning.memory import DeviceMemory, Line, Peak


def test_line_through_two_batch_sizes() -> None:
    line = Line.through((8, 16), (180, 340))
    assert line == Line(20, 20)
    assert line.at(32) == 660


def test_peak_is_the_highest_line_of_any_batch_size() -> None:
    peak = Peak.of((1, 2), ([100, 11, 50], [100, 21, 50]))
    assert set(peak.lines) == {Line(100, 0), Line(1, 10)}  # 50 is nowhere the highest
    assert [peak.at(n) for n in (1, 9, 10, 20)] == [100, 100, 101, 201]


def test_updates_of_different_operations_are_compared_by_their_peaks() -> None:
    assert Peak.of((1, 2), ([5, 30], [50, 7, 8])).lines == (Line(10, 20),)


@pytest.mark.parametrize(("limit", "largest"), [(99, 0), (100, 9), (201, 20), (210, 20), (211, 21)], ids=str)
def test_largest_batch(limit: float, largest: int) -> None:
    peak = Peak((Line(100, 0), Line(1, 10)))
    assert peak.largest_batch(limit) == largest
    assert largest == 0 or peak.at(largest) <= limit < peak.at(largest + 1)


def test_save_copies_weights_optimizer_state_and_averages() -> None:
    assert DeviceMemory(10, 9, 20, 5, Line(0, 1), Peak((Line(1, 1),))).saved == 35
