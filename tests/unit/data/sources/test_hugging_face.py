"""Data sets of the library `datasets`: their splits, labels and images, and what is refused."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from PIL import Image

from accel_train.data.images.view import View
from accel_train.data.open import is_path, open_data, open_for_evaluation
from accel_train.data.sources.base import DataSet, LabelsFrom
from accel_train.data.sources.encoded_images import TableSource, sizes_of
from accel_train.data.sources.hugging_face import _names_and_codes
from accel_train.errors import LocalError, UserError

NAMES = ClassLabel(names=["wolf", "cat"])


@pytest.fixture(autouse=True)
def no_bars() -> None:
    datasets.disable_progress_bars()


def image(blue: int, format: str = "PNG") -> dict[str, bytes]:
    content = io.BytesIO()
    Image.new("RGB", (40, 60), (10, 200, blue)).save(content, format)
    return {"bytes": content.getvalue()}


def table(labels: Sequence[Any], kind: Any = NAMES, column: str = "label", **more: Any) -> Dataset:
    features = {"image": datasets.Image(), column: kind, **{name: Value("int64") for name in more}}
    columns = {"image": [image(number) for number in range(len(labels))], column: list(labels), **more}
    return Dataset.from_dict(columns, features=Features(features))


def saved(folder: Path, found: Dataset | DatasetDict | None = None, **splits: Dataset) -> str:
    (found or DatasetDict(splits)).save_to_disk(folder / "saved")
    return str(folder / "saved")


def opened(name: str, *, column: str | None = None, val_fraction: float | None = None, test: bool = False) -> DataSet:
    labels = LabelsFrom(None, column)
    return open_data(name, directory=None, val_fraction=val_fraction, seed=0, limit=None, labels=labels, with_test=test)


def rows(source: object) -> list[tuple[int, int]]:
    assert isinstance(source, TableSource)
    return list(zip(source.rows.tolist(), source.labels.tolist(), strict=True))


def refusal(name: str, **options: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        opened(name, **options)
    return caught.value.message.replace(name, "DATA"), caught.value.hint.replace(name, "DATA")


def test_splits_and_classes_are_those_of_the_data_set(tmp_path: Path) -> None:
    splits = {"train": table([1, 0, 1]), "validation": table([1]), "test": table([0, 0]), "unsupervised": table([0])}
    name = saved(tmp_path, **splits)
    data = opened(name, test=True)
    assert (data.kind, data.train.classes) == ("folder", ("wolf", "cat"))
    assert rows(data.train) == [(0, 1), (1, 0), (2, 1)]
    assert (rows(data.val), rows(data.test)) == ([(0, 1)], [(0, 0), (1, 0)])
    assert data.notes == (f"splits of {name} that are not used: unsupervised",)
    assert opened(name).test is None
    assert is_path(name)
    assert not is_path("hf:pets")


def test_images_are_decoded_cropped_and_labelled(tmp_path: Path) -> None:
    source = opened(saved(tmp_path, train=table([1, 0, 1]), test=table([0]))).train
    assert source.shape == (3, 32, 32)
    images_BCHW, labels_B = source.read([2, 0], None, View(24, random_crop=False))
    assert labels_B.tolist() == [1, 1]
    assert (images_BCHW.shape, images_BCHW.dtype) == ((2, 3, 24, 24), torch.uint8)
    assert [image[:, 0, 0].tolist() for image in images_BCHW] == [[10, 200, 2], [10, 200, 0]]
    keyed = [source.read([0], [key], View(24, random_crop=True))[0] for key in (1, 1)]
    assert torch.equal(*keyed)


def test_images_of_paths_are_read_from_their_files(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(image(number)["bytes"])
    paths = [str(tmp_path / f"{number}.png") for number in range(4)]
    features = Features({"image": datasets.Image(), "label": NAMES})
    found = Dataset.from_dict({"image": paths, "label": [0, 1, 0, 1]}, features=features)
    undecoded = found.select_columns("image").cast_column("image", datasets.Image(decode=False))
    assert sizes_of(undecoded).tolist() == [Path(path).stat().st_size for path in paths]
    source = TableSource("x", ("a", "b"), undecoded, np.array([1, 3]), np.array([0, 1]), sizes_of(undecoded))
    assert source.read([1], None, View(8, random_crop=False))[0][0, 2, 0, 0] == 3


def test_data_without_validation_split_hold_out_a_fraction(tmp_path: Path) -> None:
    labels = [number % 2 for number in range(60)]
    for name in (saved(tmp_path / "one", table(labels)), saved(tmp_path / "two", train=table(labels))):
        data = opened(name, val_fraction=0.5)
        assert sorted([*rows(data.train), *rows(data.val)]) == list(enumerate(labels))
        assert 15 < len(data.val) < 45
        assert rows(opened(name, val_fraction=0.5).val) == rows(data.val)


def test_test_split_validates_if_there_is_no_other(tmp_path: Path) -> None:
    name = saved(tmp_path, train=table([0, 1]), test=table([1]))
    data = opened(name, test=True)
    assert rows(data.val) == [(0, 1)]
    assert data.test is None
    assert data.notes == (f"the split test of {name} is used for validation: it has no validation split",)
    message, _ = refusal(name, val_fraction=0.5)
    assert message == "--val-fraction has no effect: DATA has its own validation pictures"


def test_test_split_with_secret_labels_is_not_used(tmp_path: Path) -> None:
    name = saved(tmp_path, train=table([0, 1]), validation=table([1]), test=table([-1, -1]))
    data = opened(name, test=True)
    assert data.test is None
    assert data.notes == (f"the split test of {name} is not used: row 0 of {name} (test) has the label -1",)
    with pytest.raises(UserError, match=r"row 0 of .* \(test\) has the label -1"):
        open_for_evaluation(Path(name), ("cat", "wolf"), "runs/x", split="test")


def test_labels_may_be_texts_or_numbers_in_any_column(tmp_path: Path) -> None:
    texts = table(["dog", "cat", "dog", "cat"], Value("string"), "breed", age=[10, 9, 10, 9])
    name = saved(tmp_path, train=texts, test=texts)
    assert refusal(name) == (
        "DATA has the columns image, breed, age",
        "give --label-column, with the name of one of them",
    )
    by_breed, by_age = (opened(name, column=column).train for column in ("breed", "age"))
    assert (by_breed.classes, rows(by_breed)) == (("cat", "dog"), [(0, 1), (1, 0), (2, 1), (3, 0)])
    assert by_age.classes == ("10", "9")  # sorted as folders are


def test_fingerprint_differs_with_labels_and_sizes(tmp_path: Path) -> None:
    def fingerprint(name: str, found: Dataset) -> str:
        data = opened(saved(tmp_path / name, train=found, test=table([0])))
        return str(data.train.fingerprint)  # type: ignore[attr-defined]

    first = fingerprint("a", table([0, 1, 1]))
    assert fingerprint("b", table([0, 1, 1])) == first
    assert fingerprint("c", table([0, 1, 0])) != first
    other = Dataset.from_dict({**table([0, 1, 1])[:], "image": [image(0), image(1), image(2, "JPEG")]})
    assert fingerprint("d", other.cast(table([0]).features)) != first


def test_evaluation_has_the_owners_classes(tmp_path: Path) -> None:
    root = Path(saved(tmp_path, train=table([0, 1]), validation=table([1, 0]), test=table([1])))
    owner = (("cat", "dog", "wolf"), "runs/x")
    (val,) = open_for_evaluation(root, *owner).splits.items()
    assert (val[0], rows(val[1])) == ("val", [(0, 0), (1, 2)])
    assert rows(open_for_evaluation(root, *owner, split="test").splits["test"]) == [(0, 0)]
    with pytest.raises(UserError, match=r"\(val\) holds the class wolf, which runs/x lacks"):
        open_for_evaluation(root, ("cat", "dog"), "runs/x")
    whole = Path(saved(tmp_path / "whole", table([0, 1])))
    assert list(open_for_evaluation(whole, *owner).splits) == ["all"]
    with pytest.raises(UserError, match="has no split test"):
        open_for_evaluation(whole, *owner, split="test")


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (table([0, -1]), "row 1 of DATA (train) has the label -1"),
        (table([0, None]), "row 1 of DATA (train) has the label None"),
        (table(["cat", "cat"], Value("string")), "DATA (train) holds only the class cat"),
        (table([[0, 1]], datasets.List(NAMES)), "the column label of DATA has several labels for each image"),
        (table([0.5], Value("float32")), "the column label of DATA is 'float32'"),
        (table([0, 1]).remove_columns("image"), "DATA has no column of images: label"),
        (
            table([0, 1]).rename_column("image", "a").add_column("b", [image(1), image(2)], feature=datasets.Image()),
            "DATA has the columns of images a, b",
        ),
        (
            table([0, 1], NAMES, "fine").add_column("coarse", [0, 1], feature=NAMES),
            "DATA has the columns image, fine, coarse",
        ),
    ],
)
def test_data_set_that_cannot_be_trained_on_is_an_error(tmp_path: Path, found: Dataset, message: str) -> None:
    assert refusal(saved(tmp_path, train=found, test=found))[0] == message


def test_split_without_images_is_an_error() -> None:
    with pytest.raises(UserError, match="pets has no images"):
        _names_and_codes(table([]), "label", "pets")


def test_data_set_without_training_split_is_an_error(tmp_path: Path) -> None:
    assert refusal(saved(tmp_path, test=table([0, 1])))[0] == "DATA has the splits test, but no train"


def test_damaged_image_is_named(tmp_path: Path) -> None:
    broken = Dataset.from_dict({"image": [image(0), {"bytes": b"no image"}], "label": [0, 1]})
    name = saved(tmp_path, train=broken.cast(table([0]).features), test=table([0]))
    with pytest.raises(UserError, match=r"cannot read the image in row 1 of .*\(train\)"):
        _ = opened(name).train.shape
    source = opened(name).train
    with pytest.raises(LocalError, match=r"cannot read the image in row 1 of .*\(train\): not a picture"):
        source.read([0, 1], None, View(8, random_crop=False))


def test_row_without_an_image_is_named(tmp_path: Path) -> None:
    found = Dataset.from_dict({"image": [image(0), None], "label": [0, 1]}, features=table([0]).features)
    source = opened(saved(tmp_path, train=found, test=table([0, 1]))).train
    assert isinstance(source, TableSource)
    assert source.sizes_of_rows[1] == 0
    with pytest.raises(LocalError, match=r"cannot read the image in row 1 of .*\(train\): the row has no image"):
        source.read([1], None, View(8, random_crop=False))


def test_image_whose_file_is_missing_has_no_bytes(tmp_path: Path) -> None:
    undecoded = Features({"image": datasets.Image(decode=False)})
    found = Dataset.from_dict({"image": [{"path": str(tmp_path / "gone.png"), "bytes": None}]}, features=undecoded)
    assert sizes_of(found).tolist() == [0]


def test_saved_folder_that_is_given_as_a_name_is_an_error(tmp_path: Path) -> None:
    name = saved(tmp_path, train=table([0, 1]))
    message, hint = refusal(f"hf:{name}")
    assert (message, hint) == (f"--data DATA: {name} is a folder of save_to_disk", f"give it as --data {name}")


def test_name_of_the_hub_is_opened_by_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pets").mkdir()
    table([0, 1, 1, 0]).to_parquet("pets/train.parquet")
    table([1]).to_parquet("pets/test.parquet")
    data = opened("hf:pets")
    assert rows(data.train) == [(0, 0), (1, 1), (2, 1), (3, 0)]
    assert data.origin == "from hf:pets"
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    assert "the name of the data set is missing" in refusal("hf:")[0]
    message, hint = refusal("hf:nobody/nothing")
    assert message.startswith("--data DATA: ")
    assert hint.endswith("without a network, one that is in the library's cache (HF_HOME)")


@pytest.mark.parametrize("found", [None, SimpleNamespace(__version__="3.6.0")], ids=["missing", "old"])
def test_library_that_is_missing_or_too_old_is_named(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    monkeypatch.setitem(sys.modules, "datasets", found)  # type: ignore[arg-type]
    assert refusal("hf:pets") == (
        "--data DATA needs the library datasets, version 4 or newer",
        "run: pip install 'accel_train[datasets]'",
    )
