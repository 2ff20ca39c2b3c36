"""Rows of a benchmark as a table of 80 columns, as records and as a picture."""

import io
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from accel_train.bench.plot import check_figure, draw
from accel_train.bench.results import Found, Row, Setting
from accel_train.bench.table import benchmark_table
from accel_train.errors import UserError

FOUND = Found(
    images_per_second=123_456.0,
    peak_memory_bytes=80_000 * 2**20,
    seconds_to_first_update=12.34,
    data_share=0.01,
    compute_share=0.79,
    communication_share=0.15,
    other_share=0.05,
)
SETTING = Setting("cuda", 4096, "bf16", compile=True, processes=2, updates=40)
ROWS = [
    Row(SETTING, FOUND, bare_images_per_second=125_000.0, ratio_to_bare=0.987),
    Row(SETTING, None, failure="out of memory"),
]


def printed(rows: list[Row]) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=80).print(benchmark_table("cnn on digits", rows))
    return stream.getvalue().splitlines()


def test_a_table_fits_into_80_columns_whole() -> None:
    title, header, first, second = printed(ROWS)
    assert title.strip() == "cnn on digits"
    assert header.split()[3:7] == ["images/s", "÷", "bare", "GiB"]
    assert " ".join(first.split()) == "cuda 4096 bf16+compile 123,456 0.99 78.12 12.3 s 1 % 79 % 15 % 5 %"
    assert " ".join(second.split()) == "cuda 4096 bf16+compile out of memory"


def test_without_a_bare_loop_there_is_no_column_for_it() -> None:
    assert "bare" not in printed([Row(SETTING, FOUND)])[1]


def test_a_record_is_flat_and_unrounded() -> None:
    record = ROWS[0].as_record()
    assert record["kind"] == "bench"
    assert (record["batch_size"], record["images_per_second"], record["ratio_to_bare"]) == (4096, 123_456.0, 0.987)
    assert ROWS[1].as_record()["failure"] == "out of memory"


def test_a_figure_is_a_png_with_a_line_for_each_device(tmp_path: Path) -> None:
    draw(tmp_path / "one.png", "cnn", ROWS)
    draw(tmp_path / "two.png", "cnn", [*ROWS, Row(Setting("cpu", 64, "fp32", False, 2, 40), FOUND)])
    one, two = (Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("one", "two"))
    assert one.format is None
    assert len(set(two.get_flattened_data())) > len(set(one.get_flattened_data()))  # a second colour


def test_a_figure_that_cannot_be_drawn_is_refused_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accel_train.bench.plot.find_spec", lambda name: object())
    check_figure(tmp_path / "a.png")
    with pytest.raises(UserError, match="no file in a folder that exists"):
        check_figure(tmp_path / "nowhere" / "a.png")
    monkeypatch.setattr("accel_train.bench.plot.find_spec", lambda name: None)
    with pytest.raises(UserError) as refused:
        check_figure(tmp_path / "a.png")
    assert "matplotlib" in refused.value.message
    assert "pip install" in refused.value.hint
