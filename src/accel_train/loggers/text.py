"""Formats numbers, and replaces characters that a stream cannot encode or a terminal would act on."""

import codecs
import io
import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

_ASCII = {"→": "->", "×": "x", "–": "-", "·": "*", "…": "...", "★": "*"}
_HANDLER = "accel_train.plain"


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(_ASCII.get(glyph) or _escaped(glyph) for glyph in lost), error.end


codecs.register_error(_HANDLER, _replace)


def prepare_streams() -> None:
    """Keep stdout and stderr from raising UnicodeEncodeError in any encoding, and open those that are closed.

    Else the first file that is opened would take the place of a closed one, and libraries would print into it. Stdout
    has no buffer: text that cannot be written would stay in it, and raise when a worker starts, or at the end.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest descriptor that is free
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    _unbuffer_stdout()
    for stream in (sys.stdout, sys.stderr):
        make_safe(stream)


def _unbuffer_stdout() -> None:
    """Write through to a file or pipe, as `python -u` does; a terminal gets whole lines anyway."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.BufferedWriter) and not stream.isatty():
        encoding, lines = stream.encoding, stream.line_buffering
        raw: Any = stream.detach().detach()
        sys.stdout = io.TextIOWrapper(raw, encoding, line_buffering=lines, write_through=True)


def make_safe(stream: object) -> None:
    """Let a text stream replace our glyphs that it cannot encode by ASCII, and escape all others."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors=_HANDLER)


def as_encoded(text: str, encoding: str) -> str:
    """Return a text as a safe stream of an encoding shows it, such as ``->`` for ``→``: so its width is known."""
    return text.encode(encoding, _HANDLER).decode(encoding)


def printable(text: str) -> str:
    """Escape control characters and line breaks, such as an ESC in the name of a folder."""
    return "".join(glyph if glyph.isprintable() else _escaped(glyph) for glyph in text)


def quoted(path: Path | str) -> str:
    """Return a path as it is typed in a shell, with quotes if it needs them."""
    return shlex.quote(str(path))


def write_to_stderr(text: str) -> None:
    """Write a text to stderr at once; do nothing if its reader has gone or its disk is full."""
    with suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()


def quantity(number: int, singular: str, plural: str | None = None) -> str:
    """Return ``1 update`` or ``1,437 updates``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def option_value(value: object) -> str:
    """Return the value of an option as a user writes it, such as ``5000`` for 5000.0 and ``1,2.5``."""
    if isinstance(value, list | tuple):
        return ",".join(map(option_value, value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    """Return ``12.3 s``, ``3 min 20 s`` or ``1 h 2 min``."""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    if round(seconds) < 3600:
        return _two_units(round(seconds), "min", "s")
    return _two_units(round(seconds / 60), "h", "min")


def rough_duration(seconds: float) -> str:
    """Return at most 10 characters: ``12 s``, ``3 min 20 s``, ``24 min``, ``1 h 2 min`` or ``28 h``."""
    if round(seconds) < 60:
        return f"{round(seconds)} s"
    exact_below = {600: 1, 36_000: 60}
    unit = next((unit for limit, unit in exact_below.items() if round(seconds / unit) * unit < limit), 3600)
    return duration(unit * round(seconds / unit))


def _two_units(count: int, large: str, small: str) -> str:
    """Return a number of seconds or minutes as minutes and seconds, or hours and minutes."""
    larger, rest = divmod(count, 60)
    return f"{larger} {large} {rest} {small}" if rest else f"{larger} {large}"


def accuracy(share: float | None) -> str:
    """Return a fraction of images with 4 decimals; a dash if there were no images."""
    return "-" if share is None else f"{share:.4f}"


def validation(ema: float | None) -> str:
    """Name the figure that picks the best epoch: validation, or with EMA that of the averaged weights."""
    return "validation" if ema is None else "EMA validation"


def loss(value: float | None) -> str:
    """Return a loss in at most 9 characters, even if training diverges; a dash if there were no images."""
    if value is None:
        return "-"
    return f"{value:.2e}" if abs(value) >= 1000 else f"{value:.4f}"


def images(number: float | None) -> str:
    """Return a number of images, rounded to two digits; a dash if there is none."""
    return "–" if number is None else f"{float(f'{number:.2g}'):,.0f}"


def learning_rate(value: float) -> str:
    """Return at most 4 significant digits."""
    return f"{value:.4g}"


def speed(images_per_second: float) -> str:
    """Return whole images per second, below 10 with one decimal; a dash for 0 and NaN: none trained, none measured."""
    if not images_per_second > 0:
        return "–"
    return f"{images_per_second:,.0f}" if images_per_second >= 10 else f"{images_per_second:.1f}"


def _escaped(glyph: str) -> str:
    return glyph.encode("unicode_escape").decode("ascii")
