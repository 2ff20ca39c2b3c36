"""Prints rows of a label and a text in two aligned columns."""

import sys
import textwrap
from typing import Any

from rich.console import Console
from rich.text import Text

from accel_train.loggers.text import as_encoded, printable

Row = tuple[str, str]
"""A label, empty if the text continues the row above, and a text."""

LONGEST_LABEL = 14
_LABEL_WIDTH = LONGEST_LABEL + 1


class RunConsole(Console):
    """A console that raises BrokenPipeError when its reader is gone: Rich's ends the program.

    It writes to its file in a notebook, too.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(force_jupyter=False, **options)

    def on_broken_pipe(self) -> None:
        raise  # noqa: PLE0704  the BrokenPipeError that Rich is handling


def print_rows(console: Console, rows: list[Row], wrap: bool = True) -> None:
    """Print rows: wrapped at words on a terminal if `wrap`, one line each in a file."""
    width = console.width if wrap and console.is_terminal else sys.maxsize
    for label, text in rows:
        lines = textwrap.fill(
            as_encoded(f"{label:{LONGEST_LABEL}} {printable(text)}", console.encoding),
            width,
            subsequent_indent=" " * _LABEL_WIDTH,
            break_long_words=False,
            break_on_hyphens=False,
        )
        line = Text(lines)  # Rich would read markup in a str, such as the folder "a[/x]b"
        line.stylize("bold", 0, len(label))
        console.print(line, soft_wrap=True)
