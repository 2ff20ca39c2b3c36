"""The table of epochs and the progress bar on a terminal."""

import io
import itertools
import re

import pytest
from helpers.run_events import STARTED, run_events
from rich.console import Console

from accel_train.events import UpdateDone
from accel_train.loggers.select import console_logger
from accel_train.loggers.terminal import TerminalLogger


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")


def shown(width: int, step: float = 0.05) -> list[str]:
    """Return all lines shown on a terminal during a run, including every redraw of the bar."""
    stream = io.StringIO()
    clock = itertools.count(step=step)
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    with TerminalLogger(console, clock=lambda: next(clock)) as logger:
        for event in run_events():
            logger(event)
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


@pytest.mark.parametrize("width", [40, 80, 120])
def test_bar_shows_what_fits(width: int) -> None:
    bars = [line for line in shown(width) if line.startswith("epoch ")]
    assert all(len(bar) <= width for bar in bars)
    last = bars[-1]
    assert last.startswith("epoch 2/2 ━━━━")
    assert "100 %" in last
    assert ("local loss 0.3333" in last) == (width >= 80)
    assert ("images/s" in last) == (width >= 80)


def test_bar_is_drawn_at_most_five_times_a_second() -> None:
    draws = [line for line in shown(80, step=1e-6) if line.startswith("epoch ")]
    assert len(set(draws)) <= 5  # at the start, after the first update, at both ends of each epoch


def test_bar_shows_throughput_over_all_processes() -> None:
    stream = io.StringIO()
    now = 0.0
    with TerminalLogger(Console(file=stream, width=80, force_terminal=True), clock=lambda: now) as logger:
        logger(STARTED)
        for update in range(1, 6):
            now = float(update)
            logger(UpdateDone(1, update))
    assert "64 images/s" in stream.getvalue()


def test_cursor_is_restored_after_an_error() -> None:
    stream = io.StringIO()

    def interrupted_run() -> None:
        with console_logger(stream, is_terminal=True, quiet=False) as logger:
            logger(STARTED)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_ascii_terminal_gets_replaced_glyphs() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="accel_train.plain")
    with console_logger(stream, is_terminal=True, quiet=False) as logger:
        for event in run_events():
            logger(event)
    assert re.search(rb"0\.9031 +\* ", stream.buffer.getvalue())


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    with console_logger(stream, is_terminal=True, quiet=False) as logger:
        for event in run_events():
            logger(event)
    assert set(re.findall(r"\x1b\[[0-9;]*m", stream.getvalue())) <= {"\x1b[0m", "\x1b[1m"}
