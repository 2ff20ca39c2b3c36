"""What the command evaluate prints: tables of few classes on a terminal, rows elsewhere."""

import io
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from accel_train.cli.evaluate import _print
from accel_train.config.options import EvaluateConfig
from accel_train.events import ClassResult, Evaluated

CLASSES = 20


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def evaluated(classes: int) -> Evaluated:
    return Evaluated(
        run_folder="runs/my run",
        weights="last",
        data="pets",
        split="val",
        images=2 * classes,
        classes=classes,
        loss=0.5,
        accuracy=1.0,
        accuracy_interval=(0.9, 1.0),
        balanced_accuracy=1.0,
        top5=1.0,
        top5_interval=(0.9, 1.0),
        ece=0.0,
        mean_confidence=1.0,
        per_class=tuple(ClassResult(f"c{number}", 2, 2, 2, 1.0, 1.0, 1.0) for number in range(classes)),
        confusion=tuple(tuple(2 * (row == column) for column in range(classes)) for row in range(classes)),
        reliability=(),
        notes=(),
    )


def printed(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, found: Evaluated, per_class: bool = False) -> str:
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("TERM", "dumb")
    _print(found, EvaluateConfig(predictions=Path("a b.csv")), per_class)
    return stream.getvalue()


def test_terminal_shows_few_classes_and_the_next_command(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(Terminal(), monkeypatch, evaluated(3)).splitlines()
    assert lines[0].startswith("runs/my run (last) on pets: 6 images")
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")] == [
        *("runs/my", "95", "calibration"),
        *("class", "c0", "c1", "c2"),
        *("label", "c0", "c1", "c2"),
        *("predictions", "next"),
    ]
    assert lines[-2:] == ["predictions    'a b.csv'", "next           accel_train report 'runs/my run'"]


def test_terminal_shows_many_classes_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    many = evaluated(CLASSES + 1)
    assert "precision" not in printed(Terminal(), monkeypatch, many)
    asked = printed(Terminal(), monkeypatch, many, per_class=True)
    assert "precision" in asked
    assert "label \\ prediction" not in asked


def test_files_and_pipes_get_rows_and_tables_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    few = evaluated(2)
    assert [line.split()[0] for line in printed(io.StringIO(), monkeypatch, few).splitlines()] == [
        *("runs/my", "95", "calibration", "predictions"),
    ]
    assert printed(io.StringIO(), monkeypatch, replace(few), per_class=True).count("1.0000  1.0000  1.0000") == 2
