"""The page of a run: complete, well-formed, and safe whatever the names in it."""

import math
from dataclasses import replace
from typing import Any

import pytest
from helpers.html import Page, checked_page
from helpers.reports import NAMES, content, metrics

from accel_train.report.page import Content, page, shown_text

MOST_BYTES = 3_000_000
STARTED = dict(metrics(1).started)


@pytest.fixture(scope="module")
def ten() -> Page:
    return checked_page(page(content()))


def test_page_has_every_section(ten: Page) -> None:
    sections = ["results", "training", "mistakes", "calibration", "images", "time", "reproduce", "next"]
    assert ten.values("id", "section") == sections
    assert ten.values("href", "a") == [f"#{name}" for name in sections[1:]]
    for text in (
        *("digits_cnn_001", "all epochs done", "1,437 images of 10 classes", "Validation accuracy 79.4 %"),
        *("286 of 360 images 95 % interval 75.0 % to 83.3 %", "8 epochs, 176 updates", "93,322 parameters"),
        *("The most confident mistakes", "Most confused pairs", "Confusion matrix", "Learning rate", "Gradient norm"),
        *("accel_train train --processes 2", "accel_train train --config runs/digits_cnn_001/config.yaml"),
        *("0123456789abcdef0123456789abcdef01234567", "Python 3.11.2, accel_train 0.1.0, torch 2.14.1", "AMD EPYC"),
        *("Fingerprint of train 5f2d73fdad091dd6", "--lr 0.05 default for cnn", "2 options at their defaults"),
        *("Profile of an update rank 0", "communication 5.0 ms"),
        *("accel_train predict runs/digits_cnn_001 PICTURES", "images stay at 8×8, which the model takes"),
    ):
        assert text in ten.text.replace("\u00a0", " "), text
    assert len(ten.values("src", "img")) == 24 + 16
    assert ten.tags.count("svg") == 4 + 2


def test_names_are_shown_and_do_nothing(ten: Page) -> None:
    for name in NAMES:
        assert shown_text(name) in ten.text, name
    assert shown_text("a\nb\u202etxt\x1b\udcff קטה‌ها") == "a\\nb\\u202etxt\\x1b\\udcff קטה‌ها"
    bare = replace(content(epochs=0), predictions=None, mistakes=(), samples=())
    raw = page(replace(bare, notes=['<b onclick="x">note</b>']))
    assert "<b onclick" not in raw
    assert "&lt;b onclick" in raw


def test_many_classes_are_readable_and_small() -> None:
    html = page(content(1000, 20_000, 90, side=224))
    found = checked_page(html)
    assert len(html.encode()) < MOST_BYTES
    assert "The table is an excerpt" in found.text
    assert "All 1,000 classes" in found.text
    assert "The other 985 classes" in found.text
    assert "Top-5 accuracy" in found.text
    assert found.tags.count("svg") == 4 + 3


def test_two_classes_have_a_whole_matrix() -> None:
    found = checked_page(page(content(2, 50)))
    assert "excerpt" not in found.text
    assert "Top-5" not in found.text
    assert found.values("scope", "th").count("row") == 2 + 2 + 2 + 2 + 2  # matrix, classes, ranks, both options


def test_run_without_mistakes_says_it() -> None:
    found = checked_page(page(content(errors=0)))
    assert "Every validation image is classified correctly." in found.text
    assert "Most confused pairs" not in found.text
    assert "Confusion matrix" in found.text


@pytest.mark.parametrize(
    ("epochs", "status", "charts"),
    [(0, "not finished: no epoch trained yet", 0), (1, "not finished: 1 of 1 epochs trained", 4)],
)
def test_stopped_run_shows_what_there_is(epochs: int, status: str, charts: int) -> None:
    begun = replace(content(epochs=epochs, finished=False), predictions=None, mistakes=(), samples=())
    found = checked_page(page(begun))
    assert status in found.text
    assert found.tags.count("svg") == charts
    assert "mistakes" not in found.values("id")
    assert ("Validation accuracy" in found.text) == (epochs > 0)


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({}, None),
        ({"train_images": "<b>"}, "the record of the start of the run is damaged: train_images is '<b>'"),
        ({"hosts": [7]}, "the record of the start of the run is damaged: hosts.0 is 7"),
    ],
)
def test_damaged_record_of_the_start_is_no_failure(record: dict[str, Any], problem: str | None) -> None:
    found = checked_page(page(with_started({**STARTED, **record} if record else {})))
    assert "Validation accuracy 73.7" in found.text.replace("\u00a0", " ")
    assert "On any hardware" in found.text
    assert "As it was started" not in found.text
    assert problem is None or problem in found.text


def test_older_records_have_no_versions() -> None:
    older = {name: value for name, value in STARTED.items() if name not in ("command", "commit", "versions")}
    found = checked_page(page(with_started(older)))
    assert "On any hardware" in found.text
    assert "As it was started" not in found.text
    assert "1,437 images" in found.text


def with_started(record: dict[str, Any]) -> Content:
    """Return the content of a run with this record of its start, and little else."""
    changed = replace(metrics(3), progress=[], started=record)
    changed.epochs[:] = [replace(epoch, train_loss=None, val_loss=math.nan) for epoch in changed.epochs]
    found = replace(content(epochs=0), predictions=None, mistakes=(), samples=())
    return replace(found, history=replace(found.history, metrics=changed))
