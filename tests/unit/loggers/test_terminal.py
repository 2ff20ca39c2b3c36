"""The epoch table and the bar of a terminal."""

import io
import itertools
import re
from dataclasses import replace

import pytest
from helpers.run_events import STARTED, epoch_end, run_events
from rich.console import Console

from accel_train.events import UpdateDone
from accel_train.loggers.epoch_table import fitting_columns, header, row
from accel_train.loggers.select import human_sink
from accel_train.loggers.terminal import TerminalSink


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def shown(width: int, step: float = 0.05) -> list[str]:
    """Return all lines that a terminal showed during a run, each redraw of the bar too."""
    stream = io.StringIO()
    clock = itertools.count(step=step)
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    with TerminalSink(console, clock=lambda: next(clock)) as sink:
        for event in run_events():
            sink(event)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", stream.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain)]


@pytest.mark.parametrize(
    ("width", "table"),
    [
        (
            120,
            [
                "  epoch  train loss  val loss  val accuracy            lr   images/s      time",
                "    1/2      0.4123    0.2780        0.9031  ★       0.05      2,912    21.0 s",
                "    2/2      0.2061    0.2780        0.9031  ★       0.05      2,912    21.0 s",
            ],
        ),
        (
            40,
            [
                "  epoch  val loss  val accuracy",
                "    1/2    0.2780        0.9031  ★",
                "    2/2    0.2780        0.9031  ★",
            ],
        ),
    ],
)
def test_epochs_are_rows_under_one_header(width: int, table: list[str]) -> None:
    assert [line for line in shown(width) if re.match(r" +(epoch|\d+/\d) ", line)] == table


@pytest.mark.parametrize("width", [1, 7, 20, 40, 60, 79, 80, 120])
def test_columns_fit_and_the_most_important_stay(width: int) -> None:
    columns = fitting_columns(width)
    assert len(header(columns)) <= max(width, 7)
    assert columns[0].name == "epoch"
    assert (len(columns) == 8) == (width >= 79)


def test_wide_numbers_stay_in_their_columns() -> None:
    columns = fitting_columns(80)
    wide = replace(
        epoch_end(1), epoch=100, train_loss=1e6, val_loss=1e30, lr=1.2345e-5, images_per_second=1.2e6, seconds=1e5
    )
    assert len(row(columns, replace(STARTED, epochs=100), wide)) == len(header(columns))


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_bar_tells_what_fits(width: int) -> None:
    bars = [line for line in shown(width) if line.startswith("epoch ")]
    assert all(len(bar) <= width for bar in bars)
    last = bars[-1]
    assert last.startswith("epoch 2/2 ━━━━")
    assert "100 %" in last
    assert ("local loss 0.3333" in last) == (width >= 80)
    assert ("images/s" in last) == (width >= 80)


def test_the_bar_moves_five_times_a_second_at_most() -> None:
    draws = [line for line in shown(80, step=1e-6) if line.startswith("epoch ")]
    assert len(set(draws)) <= 5  # at the start, after the first update, at both ends of an epoch


def test_the_bar_shows_the_speed_over_all_processes() -> None:
    stream = io.StringIO()
    now = 0.0
    with TerminalSink(Console(file=stream, width=80, force_terminal=True), clock=lambda: now) as sink:
        sink(STARTED)
        for update in range(1, 6):
            now = float(update)
            sink(UpdateDone(1, update))
    assert "64 images/s" in stream.getvalue()


def test_the_cursor_comes_back_after_an_error() -> None:
    stream = io.StringIO()

    def interrupted_run() -> None:
        with human_sink(stream, stream_is_terminal=True, quiet=False) as sink:
            sink(STARTED)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_an_ascii_terminal_is_no_error() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="accel_train.plain")
    with human_sink(stream, stream_is_terminal=True, quiet=False) as sink:
        for event in run_events():
            sink(event)
    assert re.search(rb"0\.9031 +\* ", stream.buffer.getvalue())


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    with human_sink(stream, stream_is_terminal=True, quiet=False) as sink:
        for event in run_events():
            sink(event)
    assert set(re.findall(r"\x1b\[[0-9;]*m", stream.getvalue())) <= {"\x1b[0m", "\x1b[1m"}
