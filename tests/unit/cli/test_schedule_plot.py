"""The drawing of a learning rate is a PNG."""

from pathlib import Path

import numpy as np
from PIL import Image

from accel_train.cli.schedule_plot import plot_schedule


def test_plot_is_a_png(tmp_path: Path) -> None:
    path = tmp_path / "rate.png"
    plot_schedule(path, "costs $5 and $6", [(1, 0.0), (8, 0.1), (40, 0.0)], updates_per_epoch=8)
    with Image.open(path) as plot:
        assert (plot.format, plot.width > plot.height > 100) == ("PNG", True)


def test_constant_rate_is_below_the_edge(tmp_path: Path) -> None:
    path = tmp_path / "rate.png"
    plot_schedule(path, "constant", [(1, 0.1), (40, 0.1)], updates_per_epoch=8)
    with Image.open(path) as plot:
        pixels_HWC = np.asarray(plot.convert("RGB")).astype(int)
    blue_HW = (pixels_HWC[..., 2] - pixels_HWC[..., 0]) > 80
    black_HW = pixels_HWC.sum(axis=2) < 100
    upper_edge = np.flatnonzero(black_HW.mean(axis=1) > 0.8).min()
    assert np.flatnonzero(blue_HW.any(axis=1)).min() - upper_edge > 10
