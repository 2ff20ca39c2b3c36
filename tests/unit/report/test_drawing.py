"""Figures are parts of a page: its colours and font, ids of their own, no rules for other elements."""

from helpers.html import Page

from accel_train.report.drawing import BLUE, as_svg, new_figure


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
