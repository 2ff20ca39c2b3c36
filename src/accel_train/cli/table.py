"""A table of texts: as many columns as fit into the width of a terminal, all of them in a file."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accel_train.loggers.text import printable

_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column, and how much it matters: in a narrow terminal the least important ones are left out."""

    name: str
    texts: Sequence[str]
    importance: int = 0
    left: bool = False
    """Whether its texts are aligned left."""

    @property
    def width(self) -> int:
        return max(map(_cells, (self.name, *self.texts)))


def terminal_width() -> int:
    """Return the width of the terminal that stdout is, else as good as any."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def table_lines(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Yield a line of names, then one per row, as many columns of the table as fit into `width`.

    Columns without any text are left out.
    """
    shown = [Column(c.name, [printable(text) for text in c.texts], c.importance, c.left) for c in columns]
    shown = [column for column in shown if any(column.texts)]
    while len(shown) > 1 and sum(column.width for column in shown) + len(_GAP) * (len(shown) - 1) > width:
        shown.remove(min(shown, key=lambda column: column.importance))
    for row in zip(*((column.name, *column.texts) for column in shown), strict=True):
        yield _GAP.join(_padded(text, column) for text, column in zip(row, shown, strict=True)).rstrip()


def _padded(text: str, column: Column) -> str:
    space = " " * (column.width - _cells(text))
    return text + space if column.left else space + text


def _cells(text: str) -> int:
    """Return the columns of a terminal that a text takes."""
    from rich.cells import cell_len  # takes milliseconds, and all commands import this file

    return cell_len(text)
