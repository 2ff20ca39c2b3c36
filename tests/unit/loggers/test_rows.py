"""Rows of a label and a text, on terminals and in files."""

import io

import pytest
from helpers.run_events import STARTED, started
from rich.console import Console

from accel_train.loggers.banner import banner_rows
from accel_train.loggers.rows import Row, print_rows


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever its width


def printed(rows: list[Row], width: int = 80, terminal: bool = False) -> str:
    """Return rows as a stream receives them, without styles."""
    stream = io.StringIO()
    print_rows(Console(file=stream, width=width, force_terminal=terminal, color_system=None), rows)
    return stream.getvalue()


def test_texts_are_aligned_and_not_wrapped_in_files() -> None:
    rows = banner_rows(started(data="word " * 60))
    lines = printed(rows).splitlines()
    assert len(lines) == len(rows)
    assert {line[14] for line in lines} == {" "}
    assert all(line[15] != " " and line == line.rstrip() for line in lines)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_texts_are_wrapped_at_words_on_terminals(width: int) -> None:
    lines = printed(banner_rows(STARTED), width, terminal=True).splitlines()
    assert max(map(len, lines)) <= width
    assert {line[14] for line in lines} == {" "}


def test_lines_fit_after_glyphs_are_replaced() -> None:
    for width in range(30, 60):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="accel_train.plain")
        print_rows(
            Console(file=stream, width=width, force_terminal=True, color_system=None), [("a", "b → … × 猫 " * 9)]
        )
        stream.flush()
        lines = stream.buffer.getvalue().decode("ascii").splitlines()
        assert max(map(len, lines)) <= width
        assert "b -> ... x \\u732b" in " ".join(line[15:] for line in lines)


@pytest.mark.parametrize("terminal", [False, True])
def test_markup_and_control_characters_are_escaped(terminal: bool) -> None:
    banner = printed(banner_rows(started(run_folder="a[/x]b/[red]:cat:\x1b[1m\r")), terminal=terminal)
    assert "a[/x]b/[red]:cat:\\x1b[1m\\r\n" in banner
