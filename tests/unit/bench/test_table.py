"""The rows of a benchmark as a table."""

import io

from helpers.bench_rows import MEASUREMENT, ROWS, SETTING
from rich.console import Console

from accel_train.bench.results import Row
from accel_train.bench.table import benchmark_table


def printed(rows: list[Row]) -> list[str]:
    stream = io.StringIO()
    Console(file=stream, width=80).print(benchmark_table("cnn on digits", rows))
    return stream.getvalue().splitlines()


def test_table_fits_into_80_columns() -> None:
    title, header, first, second = printed(ROWS)
    assert title.strip() == "cnn on digits"
    assert header.split()[3:7] == ["images/s", "÷", "bare", "GiB"]
    assert " ".join(first.split()) == "cuda 4096 bf16+compile 123,456 0.99 78.12 12.3 s 1 % 79 % 15 % 5 %"
    assert " ".join(second.split()) == "cuda 4096 bf16+compile out of memory"


def test_ratio_has_a_column_only_if_the_bare_loop_was_measured() -> None:
    assert "bare" not in printed([Row(SETTING, MEASUREMENT)])[1]
