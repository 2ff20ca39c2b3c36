"""A terminal's screen, as a person sees it after all that a program has sent."""

import re


class Screen:
    """Lines of a terminal with some columns; it knows the control sequences of Rich's bars, and scrolls for ever."""

    def __init__(self, columns: int, sent: str) -> None:
        self._columns = columns
        self._lines = [""]
        self._continued: set[int] = set()
        self._row = self._column = 0
        for text, control in re.findall(r"([^\x1b\r\n]+)|(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", sent):
            for glyph in text:
                self._put(glyph)
            self._obey(control)

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._lines]

    @property
    def unwrapped(self) -> list[str]:
        """The lines as they were sent, each in one piece."""
        rows = enumerate(self._lines)
        text = "".join(line.ljust(self._columns) if row in self._continued else f"{line}\n" for row, line in rows)
        return [line.rstrip() for line in text.rstrip().splitlines()]

    def _put(self, glyph: str) -> None:
        if self._column == self._columns:  # only now: a full line is not yet left
            self._column = 0
            self._continued.add(self._row)
            self._feed()
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + glyph + line[self._column + 1 :]
        self._column += 1

    def _obey(self, control: str) -> None:
        if control == "\r":
            self._column = 0
        elif control == "\n":
            self._feed()
        elif control == "\x1b[1A":
            self._row -= 1
        elif control == "\x1b[2K":
            self._lines[self._row] = ""

    def _feed(self) -> None:
        self._row += 1
        self._lines += [""] * (self._row == len(self._lines))
