"""Formats of numbers, and streams of any encoding."""

import io
import math
import sys

import pytest

from accel_train.loggers import text


def written(encoding: str, content: str) -> str:
    """Return what a safe stream of an encoding holds after `content` was written to it."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    text.make_safe(stream)
    stream.write(content)
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def test_text_that_cannot_be_written_does_not_stay_in_stdout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", open("/dev/full", "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    text.prepare_streams()
    with pytest.raises(OSError, match="No space left"):
        print("a line")
    sys.stdout.flush()
    sys.stdout.close()


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
        (59.96, "1 min"),
        (62, "1 min 2 s"),
        (200, "3 min 20 s"),
        (3540, "59 min"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h"),
        (3723, "1 h 2 min"),
        (7170, "2 h"),
        (90_061, "25 h 1 min"),
    ],
)
def test_duration(seconds: float, expected: str) -> None:
    assert text.duration(seconds) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200.4, "3 min 20 s"),
        (599.4, "9 min 59 s"),
        (599.6, "10 min"),
        (1470, "24 min"),
        (3585, "1 h"),
        (3723, "1 h 2 min"),
        (35_940, "9 h 59 min"),
        (35_975, "10 h"),
        (100_000, "28 h"),
    ],
)
def test_rough_duration(seconds: float, expected: str) -> None:
    assert text.rough_duration(seconds) == expected
    assert len(expected) <= 10


def test_numbers() -> None:
    assert text.quantity(1, "process", "processes") == "1 process"
    assert text.quantity(1437, "update") == "1,437 updates"
    assert text.accuracy(0.90306) == "0.9031"
    assert text.loss(math.nan) == "nan"
    assert text.loss(-123456.0) == "-1.23e+05"
    assert [text.learning_rate(lr) for lr in (0.1 + 0.2, 0.00049751, 5e-5)] == ["0.3", "0.0004975", "5e-05"]
    assert [text.speed(speed) for speed in (2912.4, 0.52, 0.0, math.nan)] == ["2,912", "0.5", "–", "–"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(5000.0, "5000"), (1e-5, "1e-05"), (1234567.5, "1234567.5"), (3, "3"), ((1.0, 2.5), "1,2.5"), ("1h", "1h")],
)
def test_option_value_is_as_a_user_writes_it(value: object, shown: str) -> None:
    assert text.option_value(value) == shown
