"""`predict` names the classes of new pictures: the same output on any number of processes, whatever cannot be read."""

import csv
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.marks import chaos, slow
from helpers.runner import Ended, Runner
from PIL import Image

from accel_train.cli.predict import _lines, _problem_lines, _summary
from accel_train.data.sources.base import Request
from accel_train.data.sources.builtin import open_digits
from accel_train.data.sources.memory import MemorySource
from accel_train.metrics.predicted_classes import PredictedClasses

pytestmark = pytest.mark.xdist_group("predict")  # the tests share a run

OPTIONS = ("--model", "cnn", "--image-size", "8", "--batch-size", "4", "--device", "cpu", "--epochs", "3")
BAD = {
    "new/bad.jpg": "not a picture of a known format",
    "new/dangling.png": "No such file or directory",
    "new/empty.gif": "the file is empty",
    "new.zip/z/bad.png": "not a picture of a known format",
}
COUNT = 14 + 10
"""Pictures in new/ and new.zip."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a folder with a run of three classes, and new pictures; some cannot be read."""
    run = Runner(tmp_path_factory.mktemp("predict"))
    write_pictures(run.folder / "data/train", {"ape": 8, "bee": 8, "cat": 8}, size=9)
    write_pictures(run.folder / "data/val", {"ape": 5, "bee": 3, "cat": 2}, size=9, shade=3)
    ended = run("train", "--data", "data", *OPTIONS, "--output", "run")
    assert ended.code == 0, ended.err
    write_pictures(run.folder / "new", {"ape": 2, "bee": 3, "cat": 1}, size=30, shade=2)
    pixels = np.random.default_rng(0)
    for name, mode in (("a\nb.jpg", "RGB"), ("grey.png", "L"), ("lat\udce9.png", "RGBA"), ("palette.gif", "P")):
        shape = int(pixels.integers(1, 50)), int(pixels.integers(1, 50)), 3
        noise = Image.fromarray(pixels.integers(0, 256, shape, dtype=np.uint8)).convert(mode)
        noise.save(run.folder / "new" / name)
    (run.folder / "new/notes.txt").touch()
    (run.folder / "new/empty.gif").touch()
    (run.folder / "new/dangling.png").symlink_to("nowhere.png")
    for path in (run.folder / "new/bad.jpg", run.folder / "new/ape/.hidden.jpg"):
        path.write_text("no picture")
    Image.new("RGB", (8, 8)).save(run.folder / "new/one.png")
    with zipfile.ZipFile(run.folder / "new.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((run.folder / "data/val").rglob("*.png"))[:9]:
            archive.write(path, f"../{path.parent.name}_{path.name}")
        archive.writestr("z/bad.png", "no picture")
        archive.writestr("read.me", "no picture")
    return run


@pytest.fixture
def predict(place: Runner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that predicts in this process."""
    call = in_process(place.folder, monkeypatch, capsys)
    return lambda *words: call("predict", *words, "--workers", "0", "--device", "cpu")


@pytest.fixture(scope="module")
def table(place: Runner) -> bytes:
    """Return the CSV of the new pictures, computed by one process."""
    ended = place("predict", "run", "new", "new.zip", "--top-k", "2", "--csv", "1.csv", "--workers", "0")
    assert_reported(ended, "1.csv")
    return (place.folder / "1.csv").read_bytes()


def assert_reported(ended: Ended, name: str) -> None:
    """Check what is printed about the new pictures."""
    assert ended.code == 1
    assert ended.out == ""
    ignored, *listed, last = ended.err.splitlines()
    assert ignored == "note: files of other kinds are ignored: 1 × .me, 1 × .txt"
    assert listed == [f"{path}: {reason}" for path, reason in BAD.items()]
    assert last.startswith(f"run (last): {COUNT} pictures, ")
    assert last.endswith(f", 4 cannot be read, written to {name}")


def rows_of(table: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(table.decode().splitlines(keepends=True)))


def test_every_picture_has_a_row(table: bytes) -> None:
    rows = {row["image"]: row for row in rows_of(table)}
    assert len(rows) == COUNT
    assert {name: row["error"] for name, row in rows.items() if row["error"]} == BAD
    for name, row in rows.items():
        named = [row[column] for column in ("class", "probability", "class_2", "probability_2")]
        if name in BAD:
            assert named == [""] * 4
        else:
            assert {row["class"], row["class_2"]} < {"ape", "bee", "cat"}
            assert 1 >= float(row["probability"]) >= float(row["probability_2"]) > 0
    assert {"new/a\nb.jpg", "new/lat\\udce9.png", "new.zip/../ape_0.png"} < set(rows)
    for folder in ("ape", "bee", "cat"):  # as trained on, but for shade and size
        assert {row["class"] for name, row in rows.items() if f"new/{folder}/" in name} == {folder}


@pytest.mark.parametrize(("processes", "workers"), [(2, "1"), (3, "0")])
def test_table_is_the_same_on_any_number_of_processes(
    place: Runner, table: bytes, processes: int, workers: str
) -> None:
    words = ("new", "new.zip", "--top-k", "2", "--csv", "n.csv", "--workers", workers)
    assert_reported(place("predict", "run", *words, processes=processes), "n.csv")
    assert (place.folder / "n.csv").read_bytes() == table


@pytest.mark.parametrize("launcher", [slow("torchrun"), chaos("accelerate")])
def test_launchers_give_the_same_table(place: Runner, table: bytes, launcher: str) -> None:
    words = ("predict", "run", "new", "new.zip", "--top-k", "2", "--csv", "l.csv")
    ended = place(*words, processes=2, launcher=launcher)
    assert ended.code == 1
    assert f"run (last): {COUNT} pictures, " in ended.err
    assert (place.folder / "l.csv").read_bytes() == table


FROM_LIST = """
import os, sys
from accel_train.cli.app import main
os.dup2(os.open("list", os.O_RDONLY), 0)
sys.argv = ["accel_train", "predict", "run", "-", "--json", "--threshold", "0.34", *sys.argv[1:]]
main()
"""


def test_list_on_stdin_is_read_once_for_all_processes(place: Runner) -> None:
    names = [b"new/a\nb.jpg", b"new/lat\xe9.png", b"missing.jpg", b"new/ape", b"new/a\nb.jpg"]
    (place.folder / "list").write_bytes(b"\0".join(names))
    one, two = (place.tasks("-c", FROM_LIST, *words, environments=[{}]) for words in ((), ("--processes", "2")))
    assert one == two
    assert one.code == 1
    records = {record["image"]: record for record in one.records}
    assert list(records) == ["new/a\nb.jpg", "new/lat\udce9.png", "missing.jpg", "new/ape/0.png", "new/ape/1.png"]
    assert records["missing.jpg"] == {"image": "missing.jpg", "error": "No such file or directory"}
    assert [record["class"] for record in records["new/ape/0.png"]["predictions"]] == ["ape"]
    assert one.err.splitlines()[0] == "note: 1 picture given again: each is used once"


def test_predictions_are_those_of_evaluate(place: Runner) -> None:
    assert place("evaluate", "run", "--predictions", "evaluated.csv").code == 0
    assert place("predict", "run", "data/val", "--csv", "predicted.csv").code == 0
    evaluated, predicted = (rows_of((place.folder / f"{name}.csv").read_bytes()) for name in ("evaluated", "predicted"))
    assert [f"data/val/{row['image']}" for row in evaluated] == [row["image"] for row in predicted]
    assert [row["predicted"] for row in evaluated] == [row["class"] for row in predicted]
    confidences = [float(row["confidence"]) for row in evaluated]
    assert [float(row["probability"]) for row in predicted] == pytest.approx(confidences, abs=1e-6)


def test_pictures_for_a_model_of_grey_images_of_one_size(run: Runner) -> None:
    assert run("train", "--data", "digits", *OPTIONS[:2], "--epochs", "1", "--device", "cpu", "--output", "r").code == 0
    source = open_digits(Request("digits", None, None, 0)).val
    assert isinstance(source, MemorySource)
    (run.folder / "val").mkdir()
    for number, image_CHW in enumerate(source.images_NCHW[:20]):
        picture = Image.fromarray(image_CHW[0].numpy())
        picture.convert(("L", "RGB", "RGBA")[number % 3]).save(run.folder / f"val/{number:02}.png")
    assert run("evaluate", "r", "--predictions", "evaluated.csv").code == 0
    ended = run("predict", "r", "val", "--json")
    assert ended.code == 0, ended.err
    evaluated = rows_of((run.folder / "evaluated.csv").read_bytes())[:20]
    best = [record["predictions"][0] for record in ended.records]
    assert [found["class"] for found in best] == [row["predicted"] for row in evaluated]
    confidences = [float(row["confidence"]) for row in evaluated]
    assert [found["probability"] for found in best] == pytest.approx(confidences, abs=1e-6)


def test_table_is_printed_without_csv_and_json(predict: Call) -> None:
    ended = predict("run", "new/ape", "new/bee/0.png", "--threshold", "0")
    assert ended.code == 0
    header, *rows = ended.out.splitlines()
    assert header.split() == ["class", "probability", "picture"]
    assert [(row.split()[0], row.split()[2]) for row in rows] == [
        ("ape", "new/ape/0.png"),
        ("ape", "new/ape/1.png"),
        ("bee", "new/bee/0.png"),
    ]
    assert ended.err.splitlines() == ["run (last): 3 pictures, 2 × ape, 1 × bee"]
    unsure = predict("run", "new/ape", "--threshold", "1")
    rows = [row.split() for row in unsure.out.splitlines()]
    assert rows == [["class", "picture"], ["–", "new/ape/0.png"], ["–", "new/ape/1.png"]]
    assert unsure.err.splitlines() == ["run (last): 2 pictures, 2 below 1"]


def test_long_table_ends_with_the_way_to_see_all_on_a_terminal() -> None:
    count = 50
    table = PredictedClasses(
        classes=("cat", "dog"),
        images=[f"{number}\x1b.jpg" for number in range(count)],
        best_NT=np.tile([1, 0], (count, 1)),
        probabilities_NT=np.tile(np.array([0.75, 0.25], np.float32), (count, 1)),
        problems={0: "it is a folder"},
    )
    assert list(_lines(table, None))[:2] == [
        "class  probability  next best   picture",
        "dog         0.7500  cat 0.2500  1\\x1b.jpg",
    ]
    assert len(list(_lines(table, None))) == count
    shown = list(_lines(table, 40))
    assert len(shown) == 1 + 40 + 1
    assert shown[-1] == "… and 9 more: --csv FILE writes all of them"


def test_long_list_of_unreadable_pictures_ends_likewise() -> None:
    table = PredictedClasses(
        classes=("cat", "dog"),
        images=[f"{number}.jpg" for number in range(1_050)],
        best_NT=np.zeros((1_050, 1), np.int64),
        probabilities_NT=np.ones((1_050, 1), np.float32),
        problems=dict.fromkeys(range(1, 1050), "the file is empty"),
    )
    assert len(list(_problem_lines(table, None))) == 1_049
    *shown, last = _problem_lines(table, 40)
    assert shown == [f"{number}.jpg: the file is empty" for number in range(1, 41)]
    assert last == "… and 1,009 more that cannot be read: --csv FILE writes all of them"


def test_summary_counts_the_ten_most_frequent_classes() -> None:
    best_N = np.repeat(np.arange(12), np.arange(13, 1, -1))
    count = len(best_N)
    table = PredictedClasses(
        classes=tuple("abcdefghijkl"),
        images=list(map(str, range(count))),
        best_NT=best_N[:, None],
        probabilities_NT=np.linspace(1, 0.4, count, dtype=np.float32)[:, None],
        problems={0: "it is a folder"},
        threshold=0.5,
    )
    first, *parts = _summary(table).split(", ")
    assert first == "90 pictures"
    assert parts[:3] == ["12 × a", "12 × b", "11 × c"]
    assert parts[-2:] == [f"{sum(table.probabilities_NT[:, 0] < 0.5)} below 0.5", "1 cannot be read"]
    everyone = _summary(replace(table, threshold=0.0, problems={})).split(", ")
    assert everyone == ["90 pictures", *(f"{13 - k} × {'abcdefghij'[k]}" for k in range(10)), "5 × 2 other classes"]


REFUSED = {
    "missing": (("run", "missing.jpg"), "there is no file or folder missing.jpg"),
    "no run": (("data", "new"), "data is not the folder of a run"),
    "many classes": (("run", "new", "--top-k", "4"), "--top-k 4: run has 3 classes"),
    "no share": (("run", "new", "--threshold", "50"), "--threshold 50"),
    "no folder": (("run", "new", "--csv", "nowhere/a.csv"), "there is no folder nowhere"),
    "a folder": (("run", "new", "--csv", "data"), "--csv data is a folder"),
    "a run's file": (("run", "new", "--csv", "run/metrics.jsonl"), "--csv run/metrics.jsonl is a file that the run"),
    "a picture": (("run", "new", "--csv", "new/grey.png"), "--csv new/grey.png has the ending of a picture"),
    "its own picture": (("run", "new/notes.txt", "--csv", "./new/notes.txt"), "new/notes.txt is one of the pictures"),
    "a zip": (("run", "new.zip", "--csv", "new.zip"), "--csv new.zip is one of the pictures"),
    "no pictures": (("run", "data/none"), "no pictures in data/none"),
    "no path": (("run",), "PATH is missing"),
}


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_predicted_is_refused(
    place: Runner, predict: Call, words: tuple[str, ...], message: str
) -> None:
    (place.folder / "data/none").mkdir(exist_ok=True)
    ended = predict(*words)
    assert ended.code == 2
    assert_refused(ended, message)


def test_progress_goes_to_stderr(predict: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accel_train.cli.progress._SECONDS_BETWEEN_LINES", 0)
    ended = predict("run", "new/ape", "new/bee", "--json", "--batch-size", "3")
    lines = ended.err.splitlines()
    assert [line.partition(",")[0] for line in lines[:-1]] == ["0 of 5 pictures", "3 of 5 pictures", "5 of 5 pictures"]
    assert [record["image"] for record in ended.records] == [
        *(f"new/ape/{number}.png" for number in range(2)),
        *(f"new/bee/{number}.png" for number in range(3)),
    ]


def test_csv_goes_to_standard_output(place: Runner) -> None:
    to_file = place("predict", "run", "new", "--top-k", "2", "--csv", "here.csv")
    for processes in (1, 2):
        ended = place("predict", "run", "new", "--top-k", "2", "--csv", "-", processes=processes)
        assert ended.code == to_file.code == 1
        assert ended.out == (place.folder / "here.csv").read_text(encoding="utf-8")
        assert ended.err == to_file.err.replace(", written to here.csv", "")
    assert not (place.folder / "-").exists()
    (place.folder / "here.csv").unlink()
    both = place("predict", "run", "new", "--csv", "-", "--json")
    assert_refused(both, "--csv - and --json both write to standard output", "leave one out")
