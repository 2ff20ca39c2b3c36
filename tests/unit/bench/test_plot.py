"""The rows of a benchmark as a picture."""

from pathlib import Path

from helpers.bench_rows import MEASUREMENT, ROWS
from PIL import Image

from accel_train.bench.plot import plot
from accel_train.bench.results import Row, Setting


def test_plot_is_a_png_with_a_line_per_device(tmp_path: Path) -> None:
    plot(tmp_path / "one.png", "cnn", ROWS)
    plot(tmp_path / "two.png", "cnn", [*ROWS, Row(Setting("cpu", 64, "fp32", False, 2, 40), MEASUREMENT)])
    one, two = (Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("one", "two"))
    assert one.format is None
    assert len(set(two.get_flattened_data())) > len(set(one.get_flattened_data()))  # a second colour
