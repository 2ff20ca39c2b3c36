"""Where the time went, and what each process did."""

from dataclasses import replace

import pytest
from helpers.reports import metrics
from helpers.run_events import ENDED, epoch_end

from accel_train.report.resources import rank_rows, time_of_run


def test_time_of_a_run_adds_up() -> None:
    epochs = [replace(epoch_end(n), images_per_second=100.0, seconds=12.0) for n in (1, 2)]
    end = replace(ENDED, seconds=30.0, data_wait_share=0.25, save_share=0.1, watch_share=0.0)
    found = time_of_run(epochs, end, images_per_epoch=1000)
    assert found
    assert [(part.label, part.text) for part in found.parts] == [
        ("training", "15.0 s"),
        ("waiting for batches", "5.0 s"),
        ("validation", "4.0 s"),
        ("saving", "3.0 s"),
        ("other", "3.0 s"),
    ]
    assert sum(part.share for part in found.parts) == pytest.approx(1)
    unfinished = time_of_run(epochs, None, images_per_epoch=1000)
    assert unfinished
    assert [part.label for part in unfinished.parts] == ["training", "validation"]
    assert time_of_run([], end, images_per_epoch=1000) is None


def test_ranks_have_their_memory_and_waiting() -> None:
    found = metrics(2)
    last = found.by_rank[-1]
    ranks = tuple(replace(rank, memory_bytes=2**30, data_wait_share=0.125) for rank in last.ranks)
    found.by_rank[-1] = replace(last, ranks=ranks)
    rows = rank_rows(found, None)
    assert [(row.rank, row.memory, row.waiting, row.images) for row in rows] == [
        (0, "1.0 GiB", "12.5 %", "704"),
        (1, "1.0 GiB", "12.5 %", "704"),
    ]
    assert rank_rows(replace(found, by_rank=[]), None) == []
