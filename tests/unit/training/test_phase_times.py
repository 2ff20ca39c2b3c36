"""Every moment of the profiled updates counts once, for one phase."""

from itertools import pairwise

import pytest

from accel_train.training.phase_times import Interval, length, phase_times, union, without


@pytest.mark.parametrize(
    ("intervals", "taken", "left"),
    [
        ([(0, 10)], [], [(0, 10)]),
        ([(0, 10)], [(0, 10)], []),
        ([(0, 10)], [(2, 3), (5, 7)], [(0, 2), (3, 5), (7, 10)]),
        ([(0, 4), (6, 10)], [(3, 7)], [(0, 3), (7, 10)]),
        ([(0, 2), (4, 6), (8, 10)], [(1, 9)], [(0, 1), (9, 10)]),
        ([(4, 6)], [(0, 1), (5, 5.5), (8, 9)], [(4, 5), (5.5, 6)]),
    ],
)
def test_difference_keeps_the_rest(intervals: list[Interval], taken: list[Interval], left: list[Interval]) -> None:
    assert without(intervals, taken) == left


def test_union_is_sorted_and_disjoint() -> None:
    merged = union([(5, 6), (0, 3), (2, 4), (4, 4.5), (1, 2)])
    assert merged == [(0, 4.5), (5, 6)]
    assert all(first[1] < second[0] for first, second in pairwise(merged))


SPANS: dict[str, list[Interval]] = {
    "data wait": [(0, 2), (30, 31)],
    "forward": [(2, 8), (31, 35)],
    "backward": [(8, 18), (35, 45)],
    "optimizer": [(19, 20), (46, 48)],
    "validation": [(21, 30)],
}


def test_phases_without_communication_equal_their_spans() -> None:
    times = phase_times(SPANS, [], [(0, 48)])
    assert times == {
        "communication": 0,
        "forward": 10,
        "backward": 20,
        "optimizer": 3,
        "data wait": 3,
        "other": 3,  # 18-19, 20-21, 45-46
    }
    assert sum(times.values()) == 48 - 9


def test_exposed_communication_is_subtracted_from_its_phase() -> None:
    communication: list[Interval] = [
        (10, 17),
        (12, 19.5),
        (22, 25),
        (60, 70),
    ]  # the last two: in validation, and afterwards
    times = phase_times(SPANS, communication, [(2, 8), (8, 15), (31, 48)])
    assert times["communication"] == 19.5 - 15
    assert times["backward"] == 20 - 3
    assert times["optimizer"] == 3 - 0.5
    assert times["other"] == 3 - 1
    assert sum(times.values()) == 48 - 9


def test_data_wait_during_computation_does_not_count() -> None:
    times = phase_times({"data wait": [(0, 6)], "forward": [(2, 5)]}, [], [(2, 5)])
    assert (times["data wait"], times["forward"]) == (3, 3)


def test_length_is_the_sum_of_intervals() -> None:
    assert length([(0, 2), (5, 5.5)]) == 2.5
