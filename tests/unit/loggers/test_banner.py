"""What is said at the start and at the end of a run."""

import io
from dataclasses import replace

import pytest
from helpers.run_events import ENDED, STARTED
from rich.console import Console

from accel_train.events import RunStarted
from accel_train.loggers.banner import banner_rows, print_banner
from accel_train.loggers.summary import next_rows, print_summary


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever it is told


def printed(started: RunStarted, width: int = 80, terminal: bool = False) -> str:
    """Return the banner as a stream receives it, without styles."""
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=None)
    print_banner(console, started)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("run", "runs/digits-1"),
        ("model", "cnn, 93,322 parameters"),
        ("", "images stay at 8×8, which the model takes"),
        ("devices", "2 processes × cpu (asked: auto), started by accelerate launch"),
        ("strategy", "ddp over gloo"),
        ("batch", "32 per process × 2 processes × 1 accumulation = 64 per update"),
        ("", "same run on other hardware: --global-batch-size 64 --batch-size 32"),
        ("learning rate", "0.2 at 256 → 0.05 at 64 (linear), cosine"),
        ("warmup", "22 updates from 0.0005"),
        ("updates", "22 per epoch × 2 epochs = 44"),
        ("dropped", "29 of 1,437 images fill no update and are dropped each epoch"),
        ("seed", "0"),
    ],
)
def test_rows(label: str, text: str) -> None:
    assert (label, text) in banner_rows(STARTED)


def test_rows_of_a_plain_run_say_none() -> None:
    plain = replace(
        STARTED, backend=None, lr_scaling="none", peak_lr=0.1, warmup_updates=0, images_dropped=0, batch_size=64
    )
    rows = banner_rows(plain)
    assert {("strategy", "ddp"), ("learning rate", "0.1 (none), cosine")} <= set(rows)
    assert {("warmup", "none"), ("dropped", "none")} <= set(rows)
    assert not any("same run" in text for _, text in rows)


@pytest.mark.parametrize(
    ("change", "hints"),
    [
        ({}, ["set OMP_NUM_THREADS=4", "accelerate launch sets it to 1"]),
        ({"launched_by": "torchrun"}, ["set OMP_NUM_THREADS=4"]),
        ({"local_world_size": 1, "launched_by": "torchrun"}, ["set OMP_NUM_THREADS=8"]),
        ({"threads": 4}, []),
        ({"cores": 2}, []),
        ({"device": "cuda"}, []),
    ],
)
def test_idle_cores_are_pointed_out_on_cpus(change: dict[str, object], hints: list[str]) -> None:
    rows = banner_rows(replace(STARTED, **change))
    start = [label for label, _ in rows].index("threads")
    found = [text for label, text in rows[start + 1 : start + 3] if label == ""]
    assert len(found) == len(hints)
    assert all(hint in text for hint, text in zip(hints, found, strict=True))


def test_texts_stand_under_each_other_and_files_are_not_wrapped() -> None:
    lines = printed(replace(STARTED, data="word " * 60)).splitlines()
    assert len(lines) == len(banner_rows(STARTED))
    assert {line[14] for line in lines} == {" "}
    assert all(line[15] != " " and line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_wraps_at_words_behind_the_labels(width: int) -> None:
    lines = printed(STARTED, width, terminal=True).splitlines()
    assert max(map(len, lines)) <= width
    assert {line[14] for line in lines} == {" "}


@pytest.mark.parametrize("terminal", [False, True])
def test_a_folder_named_like_markup_or_a_control_is_shown_as_it_is(terminal: bool) -> None:
    banner = printed(replace(STARTED, run_folder="a[/x]b/[red]:cat:\x1b[1m\r"), terminal=terminal)
    assert "a[/x]b/[red]:cat:\\x1b[1m\\r\n" in banner


def test_next_commands_are_quoted_and_name_better_weights() -> None:
    assert next_rows(ENDED, "my runs/a b")[-1] == ("next", "accel_train evaluate 'my runs/a b'")
    assert next_rows(replace(ENDED, best_epoch=1), "r")[-1] == ("", "accel_train evaluate r --weights best")


def test_summary_keeps_a_command_on_one_line_to_be_copied() -> None:
    stream = io.StringIO()
    print_summary(Console(file=stream, width=40, force_terminal=True, color_system=None), ENDED, "my runs/" * 6)
    *facts, files, command = stream.getvalue().splitlines()
    assert max(map(len, facts)) <= 40
    assert files == "files          " + "my runs/" * 6
    assert command == f"next           accel_train evaluate '{'my runs/' * 6}'"
    assert "1.2 % of" in stream.getvalue()
    assert "all epochs done" in stream.getvalue()
