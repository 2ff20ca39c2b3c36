"""The rows of a benchmark as JSON records."""

from helpers.bench_rows import ROWS


def test_record_is_flat_and_unrounded() -> None:
    record = ROWS[0].as_record()
    assert record["kind"] == "bench"
    assert (record["batch_size"], record["images_per_second"], record["ratio_to_bare"]) == (4096, 123_456.0, 0.987)
    assert ROWS[1].as_record()["failure"] == "out of memory"
