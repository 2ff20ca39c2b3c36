"""A run is evaluated on the images that it was not trained on, and says so if it cannot be sure."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.faults import ENDLESS, started
from helpers.runner import Runner

pytestmark = pytest.mark.xdist_group("evaluated data")  # the tests share runs

OPTIONS = ("--model", "mlp", "--image-size", "8", "--batch-size", "4", "--device", "cpu", "--epochs", "1")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with pictures without splits, packed and not, pictures with splits, and a run on each."""
    at_top = Runner(tmp_path_factory.mktemp("evaluated"))
    folder = at_top.folder
    write_pictures(folder / "photos", {"ape": 15, "bee": 15}, size=8)
    for split, count in (("train", 6), ("val", 3)):
        write_pictures(folder / "split" / split, {"ape": count, "bee": count}, size=8)
    ended = [at_top("pack", "photos", "packed", "--side", "8")]
    ended += [at_top("train", "--data", f"{name}", *OPTIONS, "--output", f"on_{name}") for name in DATA]
    assert [each.code for each in ended] == [0, 0, 0, 0], ended
    return folder


DATA = ("photos", "packed", "split")


@pytest.fixture
def place(run: Runner, runs: Path) -> Runner:
    """Return a copy of all data and runs."""
    shutil.copytree(runs, run.folder, dirs_exist_ok=True)
    return run


def evaluated(run: Runner, name: str, *words: str) -> tuple[int, list[str]]:
    """Evaluate a run; return the number of images and the notes."""
    ended = run("evaluate", name, "--json", *words)
    assert ended.code == 0, ended.err
    (record,) = ended.records
    assert ended.err.splitlines() == [f"note: {note}" for note in record["notes"]]
    return record["images"], record["notes"]


def held_out(run: Runner, name: str) -> int:
    count = json.loads((run.folder / name / "config.json").read_text())["splits"]["val"]["images"]
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("data", DATA)
def test_own_data_are_those_held_out_by_any_path(place: Runner, data: str) -> None:
    expected = (held_out(place, f"on_{data}"), [])
    assert 0 < expected[0] <= 12
    assert evaluated(place, f"on_{data}") == expected
    for name in (data, f"./{data}/", str(place.folder / data)):
        assert evaluated(place, f"on_{data}", "--data", name) == expected
    (place.folder / data).rename(place.folder / "moved")
    assert evaluated(place, f"on_{data}", "--data", "moved") == expected


def test_pictures_that_were_trained_on_are_counted(place: Runner) -> None:
    shutil.copy(place.folder / "photos/ape/0.png", place.folder / "photos/ape/new.png")
    trained = 30 - held_out(place, "on_photos")
    note = f"on_photos was trained on {trained} of the 31 images"
    assert evaluated(place, "on_photos", "--data", "photos") == (31, [note])
    assert evaluated(place, "on_split", "--data", "split/train") == (
        12,
        ["on_split was trained on 12 of the 12 images"],
    )
    assert evaluated(place, "on_split", "--data", "split/val") == (6, [])  # its files are called as those of train


def test_pictures_that_were_trained_on_are_counted_whoever_names_their_labels(place: Runner) -> None:
    """A file of labels gives paths below the folder, which may begin with the class, too."""
    pictures = sorted(path.relative_to(place.folder / "photos") for path in (place.folder / "photos").rglob("*.png"))
    lines = [f"{path},{path.parent.name}" for path in pictures]
    (place.folder / "all.csv").write_text("\n".join(["file,label", *lines]))
    split = [f"{line},{'train' if n % 4 else 'val'}" for n, line in enumerate(lines)]
    (place.folder / "split.csv").write_text("\n".join(["file,label,split", *split]))
    trained = 30 - held_out(place, "on_photos")
    expected = (30, [f"on_photos was trained on {trained} of the 30 images"])
    shutil.copytree(place.folder / "photos", place.folder / "as_they_were")
    assert evaluated(place, "on_photos", "--data", "as_they_were", "--labels", "all.csv") == expected
    ended = place("train", "--data", "as_they_were", "--labels", "split.csv", *OPTIONS, "--output", "on_labels")
    assert ended.code == 0, ended.err
    of_labels = "on_labels was trained on {} of the {} images"
    assert evaluated(place, "on_labels", "--data", "as_they_were")[1] == [of_labels.format(22, 30)]
    (place.folder / "other.csv").write_text("\n".join(["file,label,split", *(f"{line},val" for line in lines[:5])]))
    images, notes = evaluated(place, "on_labels", "--data", "as_they_were", "--labels", "other.csv")
    assert (images, notes[-1]) == (5, of_labels.format(3, 5))


@pytest.mark.parametrize(("name", "data"), [("on_photos", "packed"), ("on_packed", "photos"), ("on_split", "packed")])
def test_pictures_that_may_have_been_trained_on_are_noted(place: Runner, name: str, data: str) -> None:
    note = f"{data} has no val/: all its images are evaluated, perhaps also some that {name} was trained on"
    assert evaluated(place, name, "--data", data) == (30, [note])


def test_other_pictures_are_evaluated_without_a_note(place: Runner) -> None:
    write_pictures(place.folder / "others", {"ape": 2, "bee": 1}, size=9)
    for path in (place.folder / "others").rglob("*.png"):
        path.rename(path.with_name(f"other_{path.name}"))
    assert evaluated(place, "on_photos", "--data", "others") == (3, [])


CHANGES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "added": ("split", lambda data: shutil.copy(data / "val/ape/0.png", data / "val/ape/x.png"), "+1 file in val/ape"),
    "removed": ("split", lambda data: (data / "train/bee/0.png").unlink(), "−1 file in train/bee"),
    "renamed": ("photos", lambda data: (data / "bee/0.png").rename(data / "bee/x.png"), ""),
}


@pytest.mark.parametrize(("data", "change", "expected"), CHANGES.values(), ids=CHANGES)
def test_own_data_that_have_changed_are_noted(
    place: Runner, data: str, change: Callable[[Path], object], expected: str
) -> None:
    change(place.folder / data)
    _, (note,) = evaluated(place, f"on_{data}")
    assert note.startswith(f"{data} has changed since on_{data} was trained: {expected}")


def test_other_classes_are_refused_with_their_names(place: Runner) -> None:
    (place.folder / "photos/bee").rename(place.folder / "photos/zebra")
    assert_refused(
        place("evaluate", "on_photos"),
        "the data have other classes than those of on_photos: class bee is missing, class zebra is new",
    )


@pytest.mark.parametrize("data", DATA)
def test_data_that_are_not_found_from_here_are_named(place: Runner, data: str) -> None:
    elsewhere = Runner(place.folder / "elsewhere")
    elsewhere.folder.mkdir()
    assert_refused(
        elsewhere("evaluate", f"../on_{data}"),
        f"../on_{data} was trained on {data}, which is not found from {elsewhere.folder}",
        "give it as --data PATH",
    )
    assert evaluated(elsewhere, f"../on_{data}", "--data", f"../{data}") == (held_out(place, f"on_{data}"), [])


def test_home_folder_is_found_in_every_path(place: Runner) -> None:
    home = {"HOME": str(place.folder)}
    assert place("evaluate", "~/on_split", "--data=~/split", **home).code == 0
    (place.folder / "run.yaml").write_text("output: ~/deep/kept\ndata: ~/split\nepochs: 1\nmodel: mlp\nbatch_size: 4\n")
    assert place("train", "--config=~/run.yaml", "--image-size", "8", **home).code == 0
    assert (place.folder / "deep/kept/model.safetensors").is_file()
    assert place("pack", "~/photos", "~/deep/packed", "--side", "8", **home).code == 0
    assert (place.folder / "deep/packed/pack.json").is_file()
    assert not (place.folder / "~").exists()


def test_interrupted_run_is_evaluated_with_its_best_weights(run: Runner) -> None:
    words = ("--output", "my run", *ENDLESS)
    with started(run.folder, *words) as program:
        program.wait_for_epoch()
        program.process.terminate()
        assert program.wait() == 143
    note = "my run has not finished: its best weights so far are evaluated"
    assert not (run.folder / "my run/model.safetensors").exists()

    assert evaluated(run, "my run") == (12, [note])
    assert evaluated(run, "my run", "--weights", "best") == (12, [])
    assert run("evaluate", "my run").out.startswith("my run (best) on synthetic:64,1,8,8,2: 12 images, loss ")
    assert run("evaluate", "my run", processes=2).err == f"note: {note}\n"
    refused = run("evaluate", "my run", "--weights", "last")
    assert refused.code == 2
    assert_refused(refused, "--weights last: my run has not finished", "--resume 'my run'")
    initial = run("train", *ENDLESS, "--weights", "my run", "--output", "next")
    assert initial.code == 2
    assert_refused(initial, "--weights 'my run' has not finished", "--weights 'my run/best.safetensors'")


@pytest.mark.parametrize(("classes", "shown"), [(10, False), (11, True)])
def test_top_5_accuracy_is_printed_with_more_than_ten_classes(run: Runner, classes: int, shown: bool) -> None:
    data = ("--data", f"synthetic:{3 * classes},1,12,12,{classes}", "--model", "mlp", "--device", "cpu")
    assert run("train", *data, "--epochs", "1", "--batch-size", "8", "--output", "run").code == 0
    result, [record] = run("evaluate", "run").out.splitlines()[0], run("evaluate", "run", "--json").records
    top5 = f", top-5 accuracy {record['top5']:.4f}" if shown else ""
    accuracy, balanced = (f"{record[name]:.4f}" for name in ("accuracy", "balanced_accuracy"))
    balanced = f", balanced accuracy {balanced}" if balanced != accuracy else ""
    assert result.endswith(f"loss {record['loss']:.4f}, accuracy {accuracy}{balanced}{top5}")
    assert record["classes"] == classes
