"""The description of a run at its end."""

import io

import pytest
from helpers.run_events import ENDED, started
from rich.console import Console

from accel_train.events import ReportWritten
from accel_train.loggers.summary import next_command, print_next, print_summary, summary_line, summary_rows


def test_next_command_writes_the_report_or_is_the_one_after_that() -> None:
    quoted = started(run_folder="my runs/a b")
    assert next_command(ENDED, quoted) == "accel_train report 'my runs/a b'"
    written = ReportWritten("my runs/a b/report.html")
    assert next_command(written, quoted) == "accel_train predict 'my runs/a b' PICTURES"


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"model": "my.nets:build"}, " --model my.nets:build"),
        ({"model": "cnn", "data": "mine:load"}, " --data mine:load"),
        ({"model": "cnn", "data": "synthetic:1280"}, ""),
        ({"model": "timm:resnet50", "data": "hf:mnist"}, ""),
        ({"model": "cnn", "data": "synthetic:256,3,32,32,4"}, ""),
    ],
)
def test_next_command_names_the_users_own_code(config: dict[str, str], named: str) -> None:
    begun = started({**config, "report": False}, run_folder="r")
    assert next_command(ENDED, begun) == f"accel_train report r{named}"
    predict = named if "--model" in named else ""
    assert next_command(ReportWritten("r/report.html"), begun) == f"accel_train predict r{predict} PICTURES"


def test_figures_of_averaged_weights_are_said_to_be_theirs() -> None:
    plain, averaged = started(), started({"ema": 5000.0})
    assert ("accuracy", "training 0.9505, validation 0.9031") in summary_rows(ENDED, plain)
    assert ("accuracy", "training 0.9505, EMA validation 0.9031") in summary_rows(ENDED, averaged)
    assert ("best epoch", "2, EMA validation 0.9031") in summary_rows(ENDED, averaged)
    assert summary_line(ENDED, averaged).startswith("EMA validation accuracy 0.9031, best 0.9031 in epoch 2")


def test_command_stays_on_one_line_to_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever its width
    stream, begun = io.StringIO(), started({"report": False}, run_folder="my runs/" * 6)
    console = Console(file=stream, width=40, force_terminal=True, color_system=None)
    print_summary(console, ENDED, begun)
    print_next(console, ENDED, begun)
    *results, files, command = stream.getvalue().splitlines()
    assert max(map(len, results)) <= 40
    assert files == "files          " + "my runs/" * 6
    assert command == f"next           accel_train report '{'my runs/' * 6}'"
    assert "1.2 % of" in stream.getvalue()
    assert "all epochs done" in stream.getvalue()
