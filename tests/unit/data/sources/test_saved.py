"""A folder of `save_to_disk` that is empty or damaged is one error, which names the file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import datasets
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features
from PIL import Image

from accel_train.data.open import open_data, open_for_evaluation
from accel_train.data.sources.names import is_saved
from accel_train.errors import UserError

COMPLETE = "copy the whole folder again, or save the data set again with save_to_disk"
SOME = "give a data set that has some"


def table(count: int) -> Dataset:
    kinds = Features({"image": datasets.Image(), "label": ClassLabel(names=["cat", "wolf"])})
    images = [Image.new("RGB", (4, 4), (20 * n, 0, 0)) for n in range(count)]
    return Dataset.from_dict({"image": images, "label": [n % 2 for n in range(count)]}, features=kinds)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the same table saved alone and with splits."""
    datasets.disable_progress_bars()
    folder = tmp_path_factory.mktemp("saved")
    table(6).save_to_disk(folder / "table")
    DatasetDict({"train": table(6), "test": table(2)}).save_to_disk(folder / "splits")
    return folder


@pytest.fixture
def place(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a copy of these folders the current folder."""
    shutil.copytree(sound, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")


def refusal(name: str) -> tuple[str, str]:
    """Return the error, which is the same for an evaluation."""
    assert is_saved(Path(name))
    with pytest.raises(UserError) as caught:
        open_data(name, directory=None, val_fraction=None, seed=0, limit=None)
    with pytest.raises(UserError) as again:
        open_for_evaluation(Path(name), ("cat", "wolf"), "the run", split="test")
    assert (again.value.message, again.value.hint) == (caught.value.message, caught.value.hint)
    return caught.value.message, caught.value.hint


def removed(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-600])


def another(value: object) -> Callable[[Path], None]:
    return lambda path: path.write_text(json.dumps(value)) and None


@pytest.mark.parametrize(
    ("file", "damage", "reason"),
    [
        ("state.json", removed, "{} is missing: table is not complete"),
        ("dataset_info.json", removed, "{} is missing: table is not complete"),
        ("data-00000-of-00001.arrow", removed, "{} is missing: table is not complete"),
        ("state.json", emptied, "{} is damaged: Expecting value"),
        ("state.json", cut, "{} is damaged: "),
        ("state.json", another([]), "{} is damaged: it is no JSON object"),
        ("state.json", another({}), "{} is damaged: _data_files is None: "),
        ("state.json", another({"_data_files": [3]}), "{} is damaged: _data_files.0 is 3: "),
        ("state.json", another({"_data_files": [{"file": "x"}]}), "{} is damaged: _data_files.0.file"),
        ("dataset_info.json", another([]), "{} is damaged: it is no JSON object"),
        ("dataset_info.json", emptied, "{} is damaged: Expecting value"),
        ("data-00000-of-00001.arrow", emptied, "table is damaged: ArrowInvalid: "),
        ("data-00000-of-00001.arrow", cut, "table is damaged: "),
    ],
)
def test_damaged_file_is_named(place: None, file: str, damage: Callable[[Path], None], reason: str) -> None:
    path = Path("table", file)
    damage(path)
    message, hint = refusal("table")
    assert message.startswith(reason.format(path))
    assert hint == COMPLETE


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"splits": ["train", "dev"]}, "splits/dev/state.json is missing: splits/dev is not complete"),
        ({}, "splits/dataset_dict.json is damaged: splits is None: "),
        ({"splits": 3}, "splits/dataset_dict.json is damaged: splits is 3: "),
    ],
)
def test_damaged_list_of_splits_is_named(place: None, value: object, reason: str) -> None:
    Path("splits/dataset_dict.json").write_text(json.dumps(value))
    message, hint = refusal("splits")
    assert message.startswith(reason)
    assert hint == COMPLETE


def test_folder_without_images_is_named(place: None) -> None:
    table(0).save_to_disk("empty")
    assert refusal("empty") == ("empty has no images", SOME)
    DatasetDict({"train": table(4), "validation": table(0)}).save_to_disk("half")
    assert refusal("half") == ("half/validation has no images", SOME)
    DatasetDict({}).save_to_disk("none")
    assert refusal("none") == ("none has no splits", SOME)


def test_pictures_beside_a_file_of_that_name_are_a_folder_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    assert not is_saved(tmp_path)
