"""Figures are parts of a page: its colours and font, ids of their own, no rules for other elements."""

from collections.abc import Sequence

import pytest
from helpers.html import Page

from accel_train.report.drawing import BLUE, as_svg, new_figure, start_at_zero


def svg(name: str) -> str:
    figure, axes = new_figure()
    axes.plot([1, 2], [3, 4], color=BLUE, marker="o")
    axes.set_xlabel("epoch <1>")
    return as_svg(figure, name, "Loss by epoch")


def test_figure_takes_the_colours_and_the_font_of_the_page() -> None:
    found = svg("loss")
    assert "stroke: var(--blue)" in found
    assert "fill: var(--muted)" in found
    assert "#0101" not in found
    assert "font-family" not in found
    assert "<style" not in found
    assert "<metadata" not in found
    assert Page(found).text.endswith("epoch <1> 3.0 3.2 3.4 3.6 3.8 4.0")
    assert found.startswith('<svg viewBox="0 0 374.4 216" role="img" aria-label="Loss by epoch">')


def test_figures_share_no_ids() -> None:
    one, two = Page(svg("loss")), Page(svg("accuracy"))
    assert one.values("id")
    assert not set(one.values("id")) & set(two.values("id"))
    assert {value[1:] for value in one.values("xlink:href")} <= set(one.values("id"))


def test_figure_is_the_same_each_time() -> None:
    assert svg("loss") == svg("loss")


@pytest.mark.parametrize("values", [[0.1, 0.1], [1.9, 1.88], [0.0, 3e-5], [5.0]], ids=str)
def test_axis_from_zero_leaves_room_above_a_curve(values: Sequence[float]) -> None:
    _, axes = new_figure()
    axes.plot(range(len(values)), values)
    start_at_zero(axes)
    bottom, top = axes.get_ylim()
    assert bottom == 0
    assert 1.05 * max(values) < top < 1.1 * max(values)


def test_axis_from_zero_shows_nothing_but_zeros() -> None:
    _, axes = new_figure()
    axes.plot([0, 1], [0, 0])
    start_at_zero(axes)
    assert axes.get_ylim() == (0, 1)
