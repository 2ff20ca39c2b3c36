"""The description of a run at its end."""

import io
from dataclasses import replace

import pytest
from helpers.run_events import ENDED, started
from rich.console import Console

from accel_train.loggers.summary import next_rows, print_summary


def test_next_commands_are_quoted_and_offer_best_weights() -> None:
    quoted = started(run_folder="my runs/a b")
    assert next_rows(ENDED, quoted)[-1] == ("next", "accel_train evaluate 'my runs/a b'")
    best = next_rows(replace(ENDED, best_epoch=1), started(run_folder="r"))
    assert best[-1] == ("", "accel_train evaluate r --weights best")


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
    assert next_rows(ENDED, started(config, run_folder="r"))[-1] == ("next", f"accel_train evaluate r{named}")


def test_command_stays_on_one_line_to_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever its width
    stream, begun = io.StringIO(), started(run_folder="my runs/" * 6)
    print_summary(Console(file=stream, width=40, force_terminal=True, color_system=None), ENDED, begun)
    *results, files, command = stream.getvalue().splitlines()
    assert max(map(len, results)) <= 40
    assert files == "files          " + "my runs/" * 6
    assert command == f"next           accel_train evaluate '{'my runs/' * 6}'"
    assert "1.2 % of" in stream.getvalue()
    assert "all epochs done" in stream.getvalue()
