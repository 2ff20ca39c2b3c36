"""Formats of numbers, and streams of any encoding."""

import io
import math

import pytest

from accel_train.loggers import text


def written(encoding: str, content: str) -> str:
    """Return what a safe stream of an encoding holds after `content` was written to it."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    text.make_safe(stream)
    stream.write(content)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def test_our_glyphs_are_replaced_on_an_ascii_stream() -> None:
    assert written("ascii", "1 → 2 × 3 – 4 · 5 … ★") == "1 -> 2 x 3 - 4 * 5 ... *"


def test_other_characters_are_escaped_only_if_the_encoding_lacks_them() -> None:
    assert written("ascii", "Köln 猫") == "K\\xf6ln \\u732b"
    assert written("latin-1", "Köln 猫 ×") == "Köln \\u732b ×"
    assert written("utf-8", "Köln 猫 → ★") == "Köln 猫 → ★"


def test_file_name_that_is_not_utf8_is_escaped() -> None:
    assert written("utf-8", b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\\udce9"


def test_printable_escapes_control_characters_and_line_breaks() -> None:
    assert text.printable("a\x1b[31m\n\rb Köln") == "a\\x1b[31m\\n\\rb Köln"


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.04, "0.0 s"),
        (12.34, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1:00"),
        (62, "1:02"),
        (3599.6, "1:00:00"),
        (3723, "1:02:03"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert text.duration(seconds) == expected


def test_numbers() -> None:
    assert text.quantity(1, "process", "processes") == "1 process"
    assert text.quantity(1437, "update") == "1,437 updates"
    assert text.accuracy(0.90306) == "0.9031"
    assert text.loss(math.nan) == "nan"
    assert text.loss(-123456.0) == "-1.23e+05"
    assert [text.learning_rate(lr) for lr in (0.1 + 0.2, 0.00049751, 5e-5)] == ["0.3", "0.0004975", "5e-05"]
    assert [text.speed(speed) for speed in (2912.4, 0.52, math.nan)] == ["2,912", "0.5", "–"]
