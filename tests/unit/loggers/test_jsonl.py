"""Records for programs."""

import errno
import io
import json
import math
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest
from helpers.run_events import ENDED, STARTED, epoch_by_rank, epoch_end, run_events

from accel_train.events import EpochByRank, EpochEnd, Event, Progress, RunEnded, RunStarted, as_record
from accel_train.loggers.jsonl import JsonLines

KINDS: tuple[type[Event], ...] = (RunStarted, Progress, EpochByRank, EpochEnd, RunEnded)


def test_records_are_json_lines_of_unrounded_numbers() -> None:
    stream = io.StringIO()
    logger = JsonLines(stream, KINDS)
    for event in run_events():
        logger(event)
    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    kinds = ["run", *2 * ("progress", "progress", "epoch_by_rank", "epoch"), "end"]
    assert [record["kind"] for record in records] == kinds
    times = [datetime.fromisoformat(record.pop("time")) for record in records]
    assert times == sorted(times)
    assert {time.utcoffset() for time in times} == {timedelta(0)}
    assert abs(datetime.now(UTC) - times[0]) < timedelta(minutes=1)
    assert records[1]["lr"] == 0.1 + 0.2
    assert records[1]["local_loss"] == 1 / 3
    assert records[0] == json.loads(json.dumps(as_record(STARTED)))
    assert records[0]["hosts"][0] == {
        **{"host": "node1", "ranks": [0, 1], "devices": ["cpu", "cpu"], "stages": ["", ""], "network": "lo"}
    }
    assert records[-1] == as_record(ENDED)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_are_null(value: float) -> None:
    stream = io.StringIO()
    JsonLines(stream, KINDS)(replace(epoch_end(1), val_loss=value))
    assert json.loads(stream.getvalue(), parse_constant=pytest.fail)["val_loss"] is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_non_finite_numbers_in_nested_records_are_null(value: float) -> None:
    event, stream = epoch_by_rank(1), io.StringIO()
    ranks = tuple(replace(rank, images_per_second=value) for rank in event.ranks)
    JsonLines(stream, KINDS)(replace(event, ranks=ranks))
    record = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert [(rank["loss"], rank["images_per_second"]) for rank in record["ranks"]] == [(0.4, None), (0.4246, None)]


class Full(io.StringIO):
    """A file on a full disk."""

    name = "run/metrics.jsonl"

    def write(self, text: str) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_error_of_a_write_names_the_file() -> None:
    with pytest.raises(OSError, match=r"No space left on device: 'run/metrics.jsonl'"):
        JsonLines(Full(), KINDS)(STARTED)
