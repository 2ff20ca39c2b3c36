"""Random boxes follow the paper and the key; the central box is the usual evaluation crop."""

import math

import pytest

from accel_train.data.images.crops import centre_box, random_box, typical_side
from accel_train.rng import make_key


@pytest.mark.parametrize("size", [(1, 1), (5, 400), (300, 200), (32, 48)])
def test_random_boxes_are_inside_the_picture_and_fixed_by_the_key(size: tuple[int, int]) -> None:
    height, width = size
    boxes = [random_box(height, width, make_key("box", i)) for i in range(300)]
    assert boxes == [random_box(height, width, make_key("box", i)) for i in range(300)]
    for top, left, rows, columns in boxes:
        assert 0 <= top <= height - rows < height
        assert 0 <= left <= width - columns < width


def test_random_boxes_have_the_papers_areas_and_ratios() -> None:
    """Szegedy et al. 2015, §6: 8 to 100 % of the area, sides 3/4 to 4/3."""
    boxes = [random_box(1000, 1000, make_key("box", i)) for i in range(2000)]
    areas = [rows * columns / 1e6 for _, _, rows, columns in boxes]
    ratios = [columns / rows for _, _, rows, columns in boxes]
    assert (min(areas), max(areas)) == pytest.approx((0.08, 1.0), abs=0.02)
    assert sum(area < 0.5 for area in areas) / 2000 == pytest.approx(0.48, abs=0.05)  # few boxes are redrawn
    assert (min(ratios), max(ratios)) == pytest.approx((3 / 4, 4 / 3), abs=0.01)
    assert sum(ratio < 1 for ratio in ratios) / 2000 == pytest.approx(0.5, abs=0.05)


def test_same_key_gives_the_same_relative_box_at_any_size() -> None:
    for key in range(200):
        box, smaller = random_box(375, 500, make_key(key)), random_box(256, 341, make_key(key))
        for a, b in zip(box, smaller, strict=True):
            assert math.isclose(a * 256 / 375, b, abs_tol=1.7)


@pytest.mark.parametrize(
    ("size", "box"),
    [((256, 256), (16, 16, 224, 224)), ((32, 48), (2, 10, 28, 28)), ((1, 1), (0, 0, 1, 1)), ((7, 3), (2, 0, 3, 3))],
)
def test_central_box_is_seven_eighths_of_the_shorter_side(
    size: tuple[int, int], box: tuple[int, int, int, int]
) -> None:
    assert centre_box(*size) == box


@pytest.mark.parametrize(("share", "side"), [(1.0, 60), (0.5, 30), (0.001, 1)])
def test_central_box_has_the_share_asked_for(share: float, side: int) -> None:
    assert centre_box(60, 80, share) == ((60 - side) // 2, (80 - side) // 2, side, side)


def test_random_boxes_have_the_areas_and_ratios_asked_for() -> None:
    boxes = [random_box(1000, 1500, make_key("box", i), (0.2, 0.3), (1.5, 2.0)) for i in range(1000)]
    areas = [rows * columns / 1.5e6 for _, _, rows, columns in boxes]
    ratios = [columns / rows for _, _, rows, columns in boxes]
    assert (min(areas), max(areas)) == pytest.approx((0.2, 0.3), abs=0.002)
    assert (min(ratios), max(ratios)) == pytest.approx((1.5, 2.0), abs=0.01)


def test_box_is_central_where_no_random_one_fits() -> None:
    assert random_box(100, 100, 1, (0.9, 1.0), (3.0, 4.0)) == centre_box(100, 100)
    assert random_box(100, 100, 1, (0.9, 1.0), (3.0, 4.0), 0.6) == centre_box(100, 100, 0.6)


@pytest.mark.parametrize(
    ("sides", "expected"), [([200] * 3 + [500] * 7, 224), ([20, 20, 20], 32), ([100, 70, 300], 96), ([224] * 90, 224)]
)
def test_typical_side_is_the_median_rounded_down_within_limits(sides: list[int], expected: int) -> None:
    assert typical_side(len(sides), sides.__getitem__) == expected


def test_typical_side_looks_at_64_pictures_spread_over_all() -> None:
    asked: list[int] = []

    def shorter_side(image_id: int) -> int:
        asked.append(image_id)
        return 100

    typical_side(640, shorter_side)
    assert asked == list(range(0, 640, 10))
