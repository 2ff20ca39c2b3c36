"""Durations and intervals are parsed, and anything else is refused."""

import pytest

from accel_train.config.durations import Interval, NotReadError, parse_duration, parse_interval


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("3h50m", 13800),
        ("90s", 90),
        ("1h", 3600),
        ("10min", 600),
        ("10m", 600),
        ("1d12h", 129600),
        ("1d 2h 3min 4s", 93784),
        ("0h5m", 300),
    ],
)
def test_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", " ", "5", "h", "1x", "-1h", "1.5h", "1h1h", "5m3h", "1ms", "1h,", "inf", "٣h"])
def test_other_text_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration such as 3h50m, 10min or 90s"):
        parse_duration(text)


def test_number_of_thousands_of_digits_is_not_a_duration() -> None:
    with pytest.raises(ValueError, match="not a duration"):
        parse_duration("9" * 5000 + "d")


@pytest.mark.parametrize("text", ["0s", "0h0m", "0d"])
def test_duration_of_zero_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than zero"):
        parse_duration(text)
    with pytest.raises(ValueError, match="longer than zero"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "interval", "canonical"),
    [
        ("1epoch", Interval(1, "epochs"), "1epoch"),
        ("1epochs", Interval(1, "epochs"), "1epoch"),
        ("2 epochs", Interval(2, "epochs"), "2epochs"),
        ("500updates", Interval(500, "updates"), "500updates"),
        ("1update", Interval(1, "updates"), "1update"),
        ("10min", Interval(600, "seconds"), "10min"),
        ("600s", Interval(600, "seconds"), "10min"),
        ("90s", Interval(90, "seconds"), "90s"),
        ("1h30m", Interval(5400, "seconds"), "90min"),
        ("24h", Interval(86400, "seconds"), "1d"),
    ],
)
def test_interval_is_parsed_and_printed_in_its_shortest_form(text: str, interval: Interval, canonical: str) -> None:
    assert parse_interval(text) == interval
    assert str(interval) == canonical
    assert parse_interval(canonical) == interval


@pytest.mark.parametrize("text", ["", "epoch", "5", "1.5epochs", "-1epoch", "5steps", "1epoch2updates", "1epochss"])
def test_other_text_is_not_an_interval(text: str) -> None:
    with pytest.raises(ValueError, match="not an interval such as 1epoch, 500updates or 10min"):
        parse_interval(text)


@pytest.mark.parametrize("text", ["0epochs", "0updates"])
def test_interval_of_zero_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than zero"):
        parse_interval(text)


def test_interval_is_due_at_its_multiples() -> None:
    assert [update for update in range(1, 8) if Interval(3, "updates").is_due(update=update)] == [3, 6]
    assert [epoch for epoch in range(1, 5) if Interval(2, "epochs").is_due(epoch=epoch)] == [2, 4]
    assert not Interval(2, "epochs").is_due(update=2)
    assert not Interval(2, "updates").is_due(epoch=2)
    assert not Interval(2, "seconds").is_due(epoch=2, update=2)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("04:00:00", ["4h"]),  # SLURM's notation
        ("1-12:00:00", ["1d12h"]),
        ("1-12:30", ["1d12h30min"]),
        ("4:00", ["4min", "4h"]),
        ("0:00:00", []),
        ("1.5h", ["1h30min"]),
        ("2 hours", ["2h"]),
        ("10 Minutes", ["10min"]),
        ("30sec", ["30s"]),
        ("1.3s", []),
        ("100steps", ["100updates"]),
        ("1 iter", ["1update"]),
        ("2ep", ["2epochs"]),
        ("1.5epochs", []),
        ("90", ["90updates", "90epochs", "1h30min", "1min30s"]),
        ("0", []),
        ("10x", []),
        ("", []),
    ],
)
def test_other_notation_is_understood(text: str, meant: list[str]) -> None:
    with pytest.raises(NotReadError) as refused:
        parse_interval(text)
    assert list(refused.value.meant) == meant
    for each in meant:
        parse_interval(each)
