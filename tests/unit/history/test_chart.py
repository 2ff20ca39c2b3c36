"""Curves are drawn over one another with letters."""

import math

from accel_train.history.chart import Curve, chart_lines


def test_curves_are_drawn_from_their_lowest_to_their_highest_value() -> None:
    rising = Curve("A", [(1, 0.0), (3, 1.0)])
    falling = Curve("B", [(1, 1.0), (3, 0.0)])
    assert list(chart_lines("accuracy", [rising, falling], width=16, height=5)) == [
        "accuracy",
        "1 |BB         AA",
        "  |  BBB   AAA",
        "  |     ***",
        "  |  AAA   BBB",
        "0 |AA         BB",
        "   1           3",
    ]


def test_curve_ends_where_its_run_does() -> None:
    *_, last, _ = chart_lines("", [Curve("A", [(0, 5.0), (10, 5.0)]), Curve("B", [(0, 1.0), (5, 1.0)])], 20, 3)
    assert last == "1 |" + "B" * 9


def test_values_that_are_not_finite_are_left_out() -> None:
    curve = Curve("A", [(1, 2.0), (2, math.nan), (3, math.inf), (4, 2.0)])
    lines = list(chart_lines("", [curve], 20, 3))
    assert lines[2] == "2 |" + "A" * 17


def test_constant_is_drawn_in_the_middle_with_one_label() -> None:
    assert list(chart_lines("rate", [Curve("o", [(1, 0.1), (9, 0.1)], in_steps=True)], 16, 5)) == [
        "rate",
        "    |",
        "    |",
        "0.1 |ooooooooooo",
        "    |",
        "    |",
        "     1         9",
    ]


def test_curves_of_one_point_are_not_drawn() -> None:
    assert list(chart_lines("", [Curve("A", [(1, 2.0)]), Curve("B", [])], 20)) == []


def test_curve_in_steps_has_no_values_between_its_own() -> None:
    points = [(1, 1.0), (10, 1.0), (11, 0.0), (20, 0.0)]
    lines = list(chart_lines("", [Curve("o", points, in_steps=True)], 30, 5))
    assert [line.partition("|")[2].strip() for line in lines[1:6]] == ["o" * 14, "", "", "", "o" * 13]
