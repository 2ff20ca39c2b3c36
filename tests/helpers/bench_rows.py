"""Rows of a benchmark: one that was measured, and one that did not fit into memory."""

from accel_train.bench.results import Measurement, Row, Setting

MEASUREMENT = Measurement(
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
    Row(SETTING, MEASUREMENT, bare_images_per_second=125_000.0, ratio_to_bare=0.987),
    Row(SETTING, None, failure="out of memory"),
]
