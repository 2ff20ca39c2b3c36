"""metrics.jsonl is read back as the events that were written, whatever its last lines look like."""

import json
import math
from dataclasses import replace
from pathlib import Path

from helpers.histories import by_rank, ended, epoch, progress, write_metrics
from helpers.run_events import STARTED

from accel_train.events import Event, as_record
from accel_train.history.metrics_file import Metrics, read_metrics


def written(folder: Path, *events: Event) -> str:
    write_metrics(folder, events)
    return (folder / "metrics.jsonl").read_text(encoding="utf-8")


def read(folder: Path, text: str) -> Metrics:
    (folder / "metrics.jsonl").write_text(text, encoding="utf-8")
    return read_metrics(folder)


def test_events_are_those_that_were_written(tmp_path: Path) -> None:
    events = (STARTED, progress(5), progress(10), by_rank(22, 7.0), epoch(1), ended(22))
    found = read(tmp_path, written(tmp_path, *events))
    assert found.progress == [events[1], events[2]]
    assert (found.by_rank, found.epochs, found.ends) == ([events[3]], [events[4]], [events[5]])
    assert found.started["kind"] == "run"
    expected = json.loads(json.dumps(as_record(STARTED)))
    assert {name: found.started[name] for name in expected} == expected
    assert len(found.times) == 6
    assert found.problems == []


def test_nan_and_infinity_come_back_as_nan(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        written(
            tmp_path, STARTED, progress(5, local_loss=math.nan), progress(6, local_loss=math.inf), by_rank(6, math.nan)
        ),
    )
    assert [math.isnan(each.local_loss) for each in found.progress] == [True, True]
    assert [math.isnan(rank.images_per_second) for rank in found.by_rank[0].ranks] == [True, True]
    assert [rank.loss for rank in found.by_rank[0].ranks] == [None, None]
    assert found.problems == []


def test_last_attempt_wins_over_what_was_trained_before(tmp_path: Path) -> None:
    first = (progress(5), progress(10), by_rank(22, 1.0), epoch(1), progress(30), ended(44))
    again = (progress(10, local_loss=2.5), by_rank(22, 2.0), epoch(1), progress(35, local_loss=2.0))
    found = read(tmp_path, written(tmp_path, STARTED, *first, *again))
    assert [(each.update, each.local_loss) for each in found.progress] == [(5, 1.5), (10, 2.5), (35, 2.0)]
    assert [each.ranks[0].images_per_second for each in found.by_rank] == [2.0]
    assert [each.update for each in found.epochs] == [22]
    assert found.ends == []


def test_run_that_was_continued_has_not_ended(tmp_path: Path) -> None:
    assert read(tmp_path, written(tmp_path, STARTED, epoch(1), ended(22), progress(30))).ends == []


def test_unfinished_last_line_is_no_problem(tmp_path: Path) -> None:
    text = written(tmp_path, STARTED, progress(5)) + '{"kind": "progress", "upda'
    found = read(tmp_path, text)
    assert [each.update for each in found.progress] == [5]
    assert found.problems == []


def test_damaged_lines_are_named_and_the_others_read(tmp_path: Path) -> None:
    lines = written(tmp_path, STARTED, progress(5), progress(10), progress(30)).splitlines()
    lines[1] = "null"
    lines[2] = lines[2].replace('"lr": 0.1', '"lr": "x"')
    found = read(tmp_path, "\n".join(lines) + "\n")
    assert [each.update for each in found.progress] == [30]
    assert found.problems == ["line 2 of metrics.jsonl is damaged: it has no kind, as 1 other line is"]


def test_record_of_a_newer_version_is_read_as_far_as_it_is_known(tmp_path: Path) -> None:
    newer = json.dumps({**as_record(progress(5)), "new": 1}) + "\n" + '{"kind": "unheard", "of": 1}\n'
    found = read(tmp_path, written(tmp_path, STARTED) + newer)
    assert (found.progress, found.problems) == ([progress(5)], [])


def test_missing_record_of_the_start_is_a_problem(tmp_path: Path) -> None:
    assert read(tmp_path, written(tmp_path, progress(5))).problems == [
        "metrics.jsonl has no record of the start of the run"
    ]


def test_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert read_metrics(tmp_path).problems == ["metrics.jsonl cannot be read: No such file or directory"]


def test_any_event_of_the_loop_is_read_back(tmp_path: Path) -> None:
    changed = replace(epoch(1), val_balanced_accuracy=0.25, ema_val_loss=1.0)
    assert read(tmp_path, written(tmp_path, STARTED, changed)).epochs == [changed]
