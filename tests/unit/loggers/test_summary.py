"""The description of a run at its end."""

import io
from dataclasses import replace

import pytest
from helpers.run_events import ENDED
from rich.console import Console

from accel_train.events import Stopped
from accel_train.loggers.summary import next_rows, print_summary, stopped_line


def test_next_commands_are_quoted_and_offer_best_weights() -> None:
    assert next_rows(ENDED, "my runs/a b")[-1] == ("next", "accel_train evaluate 'my runs/a b'")
    assert next_rows(replace(ENDED, best_epoch=1), "r")[-1] == ("", "accel_train evaluate r --weights best")


def test_command_stays_on_one_line_to_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever its width
    stream = io.StringIO()
    print_summary(Console(file=stream, width=40, force_terminal=True, color_system=None), ENDED, "my runs/" * 6)
    *results, files, command = stream.getvalue().splitlines()
    assert max(map(len, results)) <= 40
    assert files == "files          " + "my runs/" * 6
    assert command == f"next           accel_train evaluate '{'my runs/' * 6}'"
    assert "1.2 % of" in stream.getvalue()
    assert "all epochs done" in stream.getvalue()


def test_stopped_run_tells_how_to_resume() -> None:
    line = stopped_line(Stopped("SIGTERM", 30, 143))
    assert line == "stopped by SIGTERM after update 30 (saved); run the same command again to resume"
