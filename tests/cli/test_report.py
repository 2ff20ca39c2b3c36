"""The report of a run: written at its end, and again from what its folder holds."""

import json
import re
import shutil
from pathlib import Path

import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.html import Page, checked_page
from helpers.runner import Runner

pytestmark = pytest.mark.xdist_group("report")  # the tests share a run

OPTIONS = ("--model", "mlp", "--image-size", "8", "--batch-size", "4", "--device", "cpu", "--mixup", "0.2")
AWKWARD = "<img onerror=x> {{ 1 }}"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures of three classes, and a run of two processes on them that has written a report."""
    at_top = Runner(tmp_path_factory.mktemp("report"))
    write_pictures(at_top.folder / "photos/train", {"ape": 12, AWKWARD: 8, "cow": 8}, size=8)
    write_pictures(at_top.folder / "photos/val", {"ape": 9, AWKWARD: 3, "cow": 1}, size=8)
    (at_top.folder / "photos/val/ape/0.png").rename(at_top.folder / "photos/val/ape/caf\udce9\n.png")
    words = ("--data", "photos", *OPTIONS, "--epochs", "2", "--output", "run", "--report")
    ended = at_top("train", *words, processes=2)
    assert ended.code == 0, ended.err
    (at_top.folder / "out.txt").write_text(ended.out)
    return at_top.folder


@pytest.fixture
def place(run: Runner, trained: Path) -> Runner:
    """Return a copy of the pictures and the run."""
    shutil.copytree(trained, run.folder, dirs_exist_ok=True)
    return run


@pytest.fixture
def call(place: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(place.folder, monkeypatch, capsys)


def page_of(path: Path) -> Page:
    return checked_page(path.read_text(encoding="utf-8"))


def without_notes(path: Path) -> str:
    return re.sub(r'<ul class="notes">.*?</ul>\n', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def test_run_ends_with_its_report_and_the_next_command(trained: Path) -> None:
    *_, report, following = (trained / "out.txt").read_text().splitlines()
    assert report == "report         run/report.html"
    assert following == "next           accel_train predict run PICTURES"


def test_report_shows_mistakes_training_images_and_processes(trained: Path) -> None:
    found = page_of(trained / "run/report.html")
    rows = (trained / "run/predictions.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) > 13  # one name has a line break
    mistakes = [name for name in found.values("alt", "img") if name]
    assert len(found.values("src", "img")) == len(mistakes) + 4  # a micro-batch, whose images are mixed
    assert AWKWARD in found.text
    assert "2 processes × cpu, DDP over gloo" in found.text
    assert "Peak memory" in found.text
    assert "--mixup 0.2 flag" in found.text
    assert "accel_train train --data photos" in found.text


FIRST_UPDATE = """
from itertools import islice
from pathlib import Path
from accel_train.config.options import TrainConfig
from accel_train.report.pictures import picture
from accel_train.run.build import build_run
from accel_train.run.describe import describe_model
from accel_train.run.preview import _captioned
from accel_train.run.report_pictures import Images
run = build_run(TrainConfig(**OPTIONS, device="cpu", batch_size=6, output=Path("nowhere")), {})
expected = [(picture(image.pixels_HWC), image.caption) for image in islice(_captioned(run), 6)]
found = [(sample.picture, sample.caption) for sample in Images(run.config, run.data, describe_model(run)).samples()]
print(len(found), found == expected)
"""


@pytest.mark.parametrize(
    "options",
    [
        {"data": "photos", "model": "mlp", "image_size": 8, "augment": "strong", "cutmix": 1.0},
        {"data": "digits", "augment": "standard", "seed": 3},
    ],
    ids=["pictures", "in memory"],
)
def test_training_images_are_those_of_the_first_update(place: Runner, options: dict[str, object]) -> None:
    ended = place.script("-c", f"OPTIONS = {options!r}{FIRST_UPDATE}", processes=1)
    assert (ended.code, ended.out) == (0, "6 True\n"), ended.err


def test_report_is_written_again_with_the_same_content(place: Runner, call: Call) -> None:
    first = without_notes(place.folder / "run/report.html")
    (place.folder / "run/report.html").unlink()
    again = call("report", "run")
    assert (again.code, again.out, again.err) == (0, "report         run/report.html\n", "")
    assert without_notes(place.folder / "run/report.html") == first

    predictions = (place.folder / "run/predictions.csv").read_bytes()
    (place.folder / "run/predictions.csv").unlink()
    assert call("report", "run", "--output", "elsewhere.html").code == 0
    assert (place.folder / "run/predictions.csv").read_bytes() == predictions
    assert without_notes(place.folder / "elsewhere.html") == first


def test_report_without_data_has_no_pictures(place: Runner, call: Call) -> None:
    (place.folder / "photos").rename(place.folder / "moved")
    lost = call("report", "run")
    note = f"there are no pictures: photos is not found from {place.folder}; give them as --data PATH"
    assert (lost.code, lost.err) == (0, f"note: {note}\n")
    found = page_of(place.folder / "run/report.html")
    assert note in found.text
    assert found.values("src", "img") == []
    assert "Confusion matrix" in found.text

    assert call("report", "run", "--data", "moved").err == ""
    assert page_of(place.folder / "run/report.html").values("src", "img") != []

    (place.folder / "moved/val/cow/0.png").unlink()
    changed = call("report", "run", "--data", "moved")
    assert (changed.code, changed.err.count("note: there are no pictures")) == (0, 1)


def test_pictures_that_do_not_fit_or_cannot_be_read_are_noted(place: Runner, call: Call) -> None:
    for path in (place.folder / "photos").rglob("*.png"):
        path.write_bytes(bytes(path.stat().st_size))
    unreadable = call("report", "run")
    assert (unreadable.code, unreadable.err.count("\n")) == (0, 1)
    assert unreadable.err.startswith("note: the first training images cannot be shown: ")
    found = page_of(place.folder / "run/report.html")
    assert "the first training images cannot be shown" in found.text
    assert found.values("src", "img") == []

    table = place.folder / "run/predictions.csv"
    table.write_text(table.read_text(encoding="utf-8").replace("cow/0.png", "cow/1.png"), encoding="utf-8")
    other = call("report", "run")
    assert other.err == "note: predictions.csv is not of the run's validation images: there are no pictures\n"


def test_report_of_an_unfinished_run_is_of_its_best_weights(place: Runner, call: Call) -> None:
    folder = place.folder / "run"
    (folder / "model.safetensors").unlink()
    (folder / "predictions.csv").write_text("of earlier weights\n")
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(line for line in lines if json.loads(line)["kind"] != "end"))
    assert call("report", "run").code == 0
    found = page_of(folder / "report.html")
    assert "not finished: 2 of 2 epochs trained" in found.text
    assert "Predictions of the best weights" in found.text
    assert (folder / "predictions.csv").read_text() == "of earlier weights\n"

    (folder / "best.safetensors").unlink()
    assert call("report", "run").code == 0
    assert "Confusion matrix" not in page_of(folder / "report.html").text


def test_report_that_fails_is_only_a_note(place: Runner) -> None:
    (place.folder / "broken/matplotlib").mkdir(parents=True)
    (place.folder / "broken/matplotlib/__init__.py").write_text("raise RuntimeError('broken\\nlibrary')")
    words = ("--data", "photos", *OPTIONS, "--epochs", "1", "--output", "new", "--report")
    ended = place("train", *words, processes=2, PYTHONPATH=str(place.folder / "broken"))
    assert ended.code == 0, ended.err
    *_, note, last = ended.out.splitlines()
    assert note == "note: report.html was not written: broken library; `accel_train report new` writes it"
    assert last == "next           accel_train report new"
    assert (place.folder / "new/model.safetensors").exists()
    assert not (place.folder / "new/report.html").exists()


def test_report_of_what_is_no_run_is_refused(place: Runner, call: Call) -> None:
    assert_refused(call("report", "photos"), "photos is not the folder of a run")
    assert_refused(call("report", "run", "--output", "nowhere/a.html"), "--output nowhere/a.html", "no folder nowhere")
    assert_refused(call("report", "run", "--output", "run/config.yaml"), "run/config.yaml is a file that the run")
    shutil.copytree(place.folder / "run", place.folder / "other")
    assert_refused(call("report", "run", "--output", "other/report.html"), "is the report of another run")
    (place.folder / "run/predictions.csv").write_text("image\n")
    assert_refused(call("report", "run"), "run/predictions.csv is not a table of predictions")


def test_folder_of_data_sets_without_effect_is_refused(call: Call) -> None:
    for words in (("report", "run"), ("report", "run", "--data", "digits"), ("evaluate", "run", "--data", "photos")):
        assert_refused(call(*words, "--data-dir", "sets"), "--data-dir sets has no effect on", "leave it out")
