"""JSON is accepted only as the type that it must have; the message names the field and the value."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from accel_train.system.records import Count, Number, Sha256, Text, checked, parse_json, read_record


@dataclass(frozen=True)
class Below:
    sha256: Sha256 = "0" * 64


@dataclass(frozen=True)
class Example:
    count: Count
    number: Number = 1.0
    names: tuple[Text, ...] = ()
    below: Mapping[Text, Below] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.count == 13:
            raise ValueError("13 brings bad luck")


def test_value_is_made_of_json() -> None:
    value = {"count": 3, "number": 2, "names": ["猫", "\udcff"], "below": {"x": {"sha256": "a" * 64}}}
    made = checked(json.loads(json.dumps(value)), Example)
    assert made == Example(3, 2.0, ("猫", "\udcff"), {"x": Below("a" * 64)})
    assert isinstance(made.number, float)
    assert checked([1, 2], list[Count]) == [1, 2]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"count": "3"}, "count is '3': must be a whole number"),
        ({"count": True}, "count is True: must be a whole number"),
        ({"count": 3.0}, "count is 3.0: must be a whole number"),
        ({"count": -1}, "count is -1: must be at least 0"),
        ({"count": 10**400}, "count is a number of 1,329 bits: must be at most"),
        ({"count": None}, "count is None: must be a whole number"),
        ({"number": "1"}, "number is '1': must be a number"),
        ({"number": float("nan")}, "number is nan: must be finite"),
        ({"number": False}, "number is False: must be a number"),
        ({"names": "ab"}, "names is 'ab': input should be a valid tuple"),
        ({"names": ["a", 5]}, "names.1 is 5: input should be a valid string"),
        ({"below": {"x": {"sha256": "A" * 64}}}, "below.x.sha256 is 'AAAA"),
        ({"below": {"x": {"sha256": "a" * 64 + "\n"}}}, "below.x.sha256 is 'aaaa"),
        ({"below": {"\x1b[31m": 5}}, "below.\\x1b[31m is 5: input should be a dictionary"),
        ({"below": {"x": {"more": 5}}}, "below.x.more is unknown"),
        ({"more": 5}, "more is unknown"),
        ({"count": 13}, "13 brings bad luck"),
        ({"names": [["y"] * 999] * 999}, "names.0 is ['y', 'y', 'y', 'y', 'y', 'y', ...]: input should be"),
        ({"names": [5] * 999}, "names.0 is 5"),
    ],
)
def test_value_of_another_type_is_refused(changed: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="is damaged") as caught:
        checked({"count": 3} | changed, Example)
    assert str(caught.value).startswith(f"is damaged: {problem}")
    assert len(str(caught.value)) < 300


def test_missing_field_is_named() -> None:
    with pytest.raises(ValueError, match="is damaged: count is missing"):
        checked({}, Example)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "is damaged: Expecting value"),
        (b"\xff", "is damaged: 'utf-8' codec can't decode byte 0xff"),
        (b"[" * 100_000, "is damaged: it is nested too deeply"),
        (b"1" * 5000, "is damaged: Exceeds the limit"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "is damaged: the key 'c' is there twice"),
    ],
)
def test_text_that_breaks_a_parser_is_refused(text: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match="is damaged") as caught:
        parse_json(text)
    assert str(caught.value).startswith(problem)


def test_record_is_read_if_it_has_the_format(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"format": 2, "count": 7}')
    assert read_record(path, Example, 2) == Example(7)
    for text, problem in (
        ('{"format": 3, "unheard": 1}', "has format 3, this version reads 2"),
        ('{"format": 2.0}', "has format 2.0, this version reads 2"),
        ('{"format": "\\u001b"}', r"has format '\\x1b', this version reads 2"),
        ('{"count": 7}', "is damaged: it has no format"),
        ("[]", "is damaged: it has no format"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=problem):
            read_record(path, Example, 2)
    with pytest.raises(FileNotFoundError):
        read_record(tmp_path / "none", Example, 2)
