"""The drawing of a learning rate is a PNG."""

from pathlib import Path

from PIL import Image

from accel_train.cli.schedule_plot import plot_schedule


def test_plot_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "rate.png"
    plot_schedule(path, "costs $5 and $6", [(1, 0.0), (8, 0.1), (40, 0.0)], updates_per_epoch=8)
    with Image.open(path) as plot:
        assert (plot.format, plot.width > plot.height > 100) == ("PNG", True)
