"""The table of epochs and the progress bar on a terminal."""

import io
import itertools
import re

import pytest
from helpers.run_events import RANKS, STARTED, run_events
from rich.console import Console

from accel_train.events import Notice, ReportWritten, Resumed, UpdateDone
from accel_train.loggers.select import Process, console_logger
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
        for event in (*run_events(), ReportWritten("runs/digits-1/report.html")):
            logger(event)
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "\r", stream.getvalue())
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain)]


def test_next_command_comes_after_notes_on_a_run_without_report() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    with TerminalLogger(console) as logger:
        for event in (*run_events(), Notice("try more images")):
            logger(event)
    assert stream.getvalue().endswith("note: try more images\nnext           accel_train report runs/digits-1\n")


@pytest.mark.parametrize(
    ("width", "table"),
    [
        (
            120,
            [
                "  epoch  train loss  val loss  val accuracy     noise scale         lr   images/s        time",
                "[rank 0/2 cpu] epoch 1/2  loss 0.4000 over 704 images  1,456 images/s  weights 8f3a19c2",
                "[rank 1/2 cpu] epoch 1/2  loss 0.4246 over 704 images  1,456 images/s  weights 8f3a19c2",
                "    1/2      0.4123    0.2780        0.9031  ★            –       0.05      2,912      21.0 s",
                "[rank 0/2 cpu] epoch 2/2  loss 0.2000 over 704 images  1,456 images/s  weights 8f3a19c2",
                "[rank 1/2 cpu] epoch 2/2  loss 0.2123 over 704 images  1,456 images/s  weights 8f3a19c2",
                "    2/2      0.2061    0.2780        0.9031  ★            –       0.05      2,912      21.0 s",
            ],
        ),
        (
            40,
            [
                "  epoch  val loss  val accuracy",
                "[rank 0/2 cpu] epoch 1/2  loss 0.4000",
                "[rank 1/2 cpu] epoch 1/2  loss 0.4246",
                "    1/2    0.2780        0.9031  ★",
                "[rank 0/2 cpu] epoch 2/2  loss 0.2000",
                "[rank 1/2 cpu] epoch 2/2  loss 0.2123",
                "    2/2    0.2780        0.9031  ★",
            ],
        ),
    ],
)
def test_epochs_are_rows_under_one_header_after_the_lines_of_the_ranks(width: int, table: list[str]) -> None:
    assert [line for line in shown(width) if re.match(r" +(epoch|\d+/\d) |.* epoch \d/2  loss", line)] == table


@pytest.mark.parametrize(
    ("width", "bar"),
    [
        (30, r"epoch 2/2 ━+╸? +73 %"),
        (36, r"epoch 2/2 ━+╸? +73 %  \d s left"),
        (40, r"epoch 2/2 ━+╸? +73 %  \d s, \d s left"),
        (60, r"epoch 2/2 ━+╸? +73 %  \d s, \d s left  [\d,]+ images/s"),
        (80, r"epoch 2/2 ━+╸? +73 %  \d s, \d s left  [\d,]+ images/s  local loss 0.3333"),
        (120, r"epoch 2/2 ━+╸? +73 %  \d s, \d s left  [\d,]+ images/s  local loss 0.3333"),
    ],
)
def test_bar_shows_what_fits_of_the_whole_run(width: int, bar: str) -> None:
    bars = [line for line in shown(width) if line.startswith("epoch ")]
    assert all(len(line) <= width for line in bars)
    assert re.fullmatch(bar, next(line for line in bars if " 73 %" in line)), bars


def test_bar_tells_when_the_run_validates() -> None:
    validating = [line for line in shown(80) if "validating" in line]
    shown_then = [re.sub(" ━.*? (?=[0-9]+ %)", " … ", line) for line in validating]
    assert list(dict.fromkeys(shown_then)) == [
        "epoch 1/2 … 50 %  4 s, 4 s left  validating  local loss 0.3333",
        "epoch 2/2 … 100 %  7 s, 0 s left  validating  local loss 0.3333",
    ]


def test_resumed_bar_starts_where_the_run_resumes() -> None:
    stream = io.StringIO()
    now = 0.0
    console = Console(file=stream, width=80, force_terminal=True, color_system=None)
    with TerminalLogger(console, clock=lambda: now) as logger:
        for event in (STARTED, Resumed(2, 33, 60.0), RANKS, Notice("hello")):
            logger(event)
    assert "resumed at epoch 2 of 2, update 33\n" in stream.getvalue()
    bars = re.findall(r"epoch (\d)/2 (━*)╸? +(\d+) %  (.*?)[\r\n]", stream.getvalue())
    assert {(epoch, share, time.strip()) for epoch, _, share, time in bars} == {("2", "75", "1 min")}
    assert 30 < len(bars[0][1]) < 60


def test_cursor_rests_at_the_start_of_the_bar() -> None:
    """Else a ^C would begin another line at the end of a full one, and the bar would stay above it."""
    stream = io.StringIO()
    with TerminalLogger(Console(file=stream, width=80, force_terminal=True, color_system=None)) as logger:
        for event in (STARTED, RANKS, UpdateDone(1, 1), Notice("hello"), UpdateDone(1, 22)):
            logger(event)
            if event is not STARTED:
                assert stream.getvalue().endswith("\r")
                assert stream.getvalue().rpartition("\n")[2].replace("\r", "").count("epoch 1/2") >= 1


def test_verbose_shows_the_banner_in_full() -> None:
    lengths = {}
    for verbose in (False, True):
        stream = io.StringIO()
        with console_logger(stream, is_terminal=True, process=Process(0, verbose=verbose)) as logger:
            logger(STARTED)
        lengths[verbose] = stream.getvalue().count("\n")
    assert lengths[True] > lengths[False] + 5


def test_bar_is_drawn_at_most_five_times_a_second() -> None:
    draws = [line for line in shown(80, step=1e-6) if line.startswith("epoch ")]
    assert len(set(draws)) <= 5  # at the start, after the first update, at both ends of each epoch


def test_bar_shows_throughput_over_all_processes() -> None:
    stream = io.StringIO()
    now = 0.0
    with TerminalLogger(Console(file=stream, width=80, force_terminal=True), clock=lambda: now) as logger:
        logger(STARTED)
        logger(RANKS)
        for update in range(1, 6):
            now = float(update)
            logger(UpdateDone(1, update))
    assert "64 images/s" in stream.getvalue()


def test_cursor_is_restored_after_an_error() -> None:
    stream = io.StringIO()

    def interrupted_run() -> None:
        with console_logger(stream, is_terminal=True, process=Process(0)) as logger:
            for event in (STARTED, RANKS):
                logger(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_run()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_ascii_terminal_gets_replaced_glyphs() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="accel_train.plain")
    with console_logger(stream, is_terminal=True, process=Process(0)) as logger:
        for event in run_events():
            logger(event)
    assert re.search(rb"0\.9031 +\* ", stream.buffer.getvalue())


def test_lines_of_an_ascii_terminal_fit() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="accel_train.plain")
    with console_logger(stream, is_terminal=True, process=Process(0)) as logger:
        for event in (STARTED, Notice("→ " * 40)):
            logger(event)
    plain = re.sub(rb"\x1b\[[0-9;]*m", b"", stream.buffer.getvalue())
    assert max(map(len, plain.splitlines())) <= 80


def test_rest_of_the_bar_is_grey_on_light_and_dark_terminals() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="256")
    with TerminalLogger(console) as logger:
        for event in (STARTED, RANKS, UpdateDone(1, 22)):
            logger(event)
    assert re.search(r"\x1b\[90m[╺━]+", stream.getvalue())


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    with console_logger(stream, is_terminal=True, process=Process(0)) as logger:
        for event in run_events():
            logger(event)
    assert set(re.findall(r"\x1b\[[0-9;]*m", stream.getvalue())) <= {"\x1b[0m", "\x1b[1m", "\x1b[2m"}


def test_run_ends_with_its_report_and_the_next_command_in_one_piece() -> None:
    assert [line for line in shown(40) if line][-2:] == [
        "report         runs/digits-1/report.html",
        "next           accel_train predict runs/digits-1 PICTURES",
    ]
