"""Runs on pictures whose labels are in a file, on the packed folder of them, and on a table of the same images."""

import json
import random

import datasets
import numpy as np
import pytest
from helpers.cli import assert_refused
from helpers.runner import Ended, Runner, read_metrics
from PIL import Image

pytestmark = pytest.mark.xdist_group("labels")  # the tests share runs

OPTIONS = ("--model", "mlp", "--image-size", "8", "--device", "cpu", "--epochs", "1", "--exact")
BATCH = ("--batch-size", "4", "--global-batch-size", "8")
COUNTS = {"train": 16, "val": 5, "test": 7}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a folder of pictures, files of their labels, a packed folder and a table of them, and a run."""
    run = Runner(tmp_path_factory.mktemp("labelled"))
    rows = []
    for split, count in COUNTS.items():
        for number in range(count):
            path = run.folder / "pics" / f"{split}{number:02d}.png"
            path.parent.mkdir(exist_ok=True)
            pixels = np.random.default_rng(len(rows)).integers(0, 256, (9, 9 + number % 3, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(path)
            rows.append((path.name, "bee" if number * 2 < count else "ape", split))
    rows.sort(key=lambda row: (row[1], row[0]))
    images = {
        split: datasets.Dataset.from_dict(
            {
                "image": [{"bytes": (run.folder / "pics" / row[0]).read_bytes()} for row in rows if row[2] == split],
                "label": [("ape", "bee").index(row[1]) for row in rows if row[2] == split],
            },
            features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ape", "bee"])}),
        )
        for split in COUNTS
    }
    datasets.DatasetDict(images).save_to_disk(run.folder / "table")
    random.Random(0).shuffle(rows)
    (run.folder / "labels.csv").write_text("file,label,split\n" + "".join(",".join(row) + "\n" for row in rows))
    datasets.Dataset.from_dict(dict(zip(("path", "class", "split"), zip(*rows, strict=True), strict=True))).to_parquet(
        run.folder / "labels.parquet"
    )
    assert run("pack", "pics", "packed", "--labels", "labels.csv", "--side", "9").code == 0
    assert trained(run, "run", "--data", "pics", "--labels", "labels.csv").code == 0
    return run


def trained(run: Runner, name: str, *words: str, processes: int = 1) -> Ended:
    return run("train", *words, *OPTIONS, *BATCH, "--output", name, processes=processes)


def weights(run: Runner, name: str) -> bytes:
    return (run.folder / name / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (("--data", "pics", "--labels", "labels.parquet", "--workers", "2"), 2),
        (("--data", "packed"), 1),
        (("--data", "table", "--workers", "1"), 2),
    ],
    ids=["parquet, two processes", "packed", "table, two processes"],
)
def test_same_pictures_and_labels_are_the_same_run(place: Runner, words: tuple[str, ...], processes: int) -> None:
    name = f"as_{words[1]}"
    ended = trained(place, name, *words, processes=processes)
    assert ended.code == 0, ended.err
    assert weights(place, name) == weights(place, "run")


def test_run_reports_where_its_labels_come_from(place: Runner) -> None:
    (start,) = read_metrics(place.folder / "run", "run")
    assert start["origin"] == "from pics, labels from labels.csv"
    assert (start["train_images"], start["val_images"]) == (16, 5)
    assert start["config"]["labels"] == "labels.csv"
    assert "labels: labels.csv  # flag" in (place.folder / "run/config.yaml").read_text()
    listed = place("train", "--data", "pics", "--labels", "labels.csv", *OPTIONS, "--dry-run")
    assert "note: not used in labels.csv: the split test" in listed.out.splitlines()


@pytest.mark.parametrize(
    ("split", "words"),
    [
        ("test", ()),
        ("val", ("--data", "pics", "--labels", "labels.parquet")),
        ("test", ("--data", "packed")),
        ("test", ("--data", "table")),
    ],
)
def test_each_split_is_evaluated(place: Runner, split: str, words: tuple[str, ...]) -> None:
    ended = place("evaluate", "run", "--split", split, "--json", *words)
    assert ended.code == 0, ended.err
    (record,) = ended.records
    assert (record["split"], record["images"], record["notes"]) == (split, COUNTS[split], [])


def test_split_is_printed(place: Runner) -> None:
    printed = place("evaluate", "run", "--split", "test")
    assert printed.out.startswith("run (last) on pics (test): 7 images, loss ")


def test_data_without_test_split_are_an_error(place: Runner) -> None:
    assert trained(place, "on_digits", "--data", "digits", "--limit", "16").code == 0
    assert_refused(
        place("evaluate", "on_digits", "--split", "test"),
        "digits has no test split with labels",
        "leave out --split: its validation images are then evaluated",
    )
    assert_refused(
        place("evaluate", "run", "--labels", "labels.csv"),
        "--labels and --label-column have no effect on the data of run",
        "add --data, or leave them out",
    )


def test_run_resumes_with_its_labels_under_any_name_but_no_others(place: Runner) -> None:
    words = ("--data", "pics", "--epochs", "2")
    lines = (place.folder / "labels.csv").read_text().splitlines()
    other = [line.replace("bee", "ape") if line.startswith("train00") else line for line in lines]
    (place.folder / "other.csv").write_text("\n".join(other) + "\n")
    refused = place("train", "--resume", "run", "--labels", "other.csv", *words)
    assert refused.code == 2
    assert "the data are not those of the run in run: +1 file in train/ape, −1 file in train/bee" in refused.err
    assert trained(place, "longer", "--data", "pics", "--labels", "labels.csv").code == 0
    ended = place("train", "--resume", "longer", "--labels", "labels.parquet", *words)
    assert ended.code == 0, ended.err
    assert json.loads((place.folder / "longer/config.json").read_text())["classes"] == ["ape", "bee"]


def test_labels_that_cannot_be_used_are_one_error(place: Runner) -> None:
    (place.folder / "wrong.csv").write_text("file,label\ntrain00.png,ape\ntrain01.png,bee\ntrain00.png,bee\n")
    assert_refused(
        place("train", "--data", "pics", "--labels", "wrong.csv", *OPTIONS),
        "wrong.csv, line 4: train00.png has several labels: ape in line 2 and bee",
        "give each picture one label: several labels per picture cannot be trained on yet",
    )
    assert_refused(
        place("pack", "table", "packed_table"),
        "table is a Hugging Face data set",
        "train on it with: accel_train train --data table",
    )
