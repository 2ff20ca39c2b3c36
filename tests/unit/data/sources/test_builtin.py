"""The embedded digits are complete, and torchvision's data sets become in-memory sources."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_mnist import resources, serve, tiny_mnist
from torchvision import datasets

from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, Source, View
from accel_train.errors import UserError


def opened(name: str, directory: Path | None = None) -> DataSet:
    return open_data(name, directory=directory, val_fraction=None, seed=0, limit=None)


def everything(source: Source) -> tuple[torch.Tensor, list[int]]:
    images, labels = source.read(range(len(source)), None, View(8, random_crop=False))
    return images, labels.tolist()


def test_digits_are_1797_split_evenly_by_class() -> None:
    data = opened("digits")
    (train, train_labels), (val, val_labels) = everything(data.train), everything(data.val)
    assert (train.shape, val.shape, train.dtype) == ((1438, 1, 8, 8), (359, 1, 8, 8), torch.uint8)
    totals = {0: 178, 1: 182, 2: 177, 3: 183, 4: 181, 5: 182, 6: 181, 7: 179, 8: 174, 9: 180}
    assert Counter(train_labels + val_labels) == totals
    assert all(abs(count - totals[label] / 5) < 1 for label, count in Counter(val_labels).items())
    seen = {bytes(image.numpy().tobytes()) for image in train}
    assert not any(bytes(image.numpy().tobytes()) in seen for image in val)
    assert (int(train.min()), int(train.max())) == (0, 255)
    assert data.mean == pytest.approx((train.double().mean().item() / 255,), rel=1e-9)


@pytest.mark.parametrize("wrong", ["address", "checksum"])
def test_failed_download_names_data_and_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    with serve(tmp_path) as (address, _):
        monkeypatch.setattr(datasets.MNIST, "mirrors", ["http://127.0.0.1:1/" if wrong == "address" else address])
        monkeypatch.setattr(datasets.MNIST, "resources", [(name, "0" * 32) for name, _ in resources()])
        with pytest.raises(UserError, match=f"cannot get mnist in {tmp_path / 'cache'}: ") as caught:
            opened("mnist", tmp_path / "cache")
    assert caught.value.hint == "put the files there, or give the folder that holds them as --data-dir"


def test_downloads_go_to_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    raw = tmp_path / "accel_train" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for name, content in tiny_mnist().items():
        (raw / name).write_bytes(content)
    data = opened("mnist")  # nothing left to download
    assert (data.kind, data.origin, len(data.train)) == ("mnist", f"from {tmp_path / 'accel_train'}", 30)
    assert data.train.classes[3] == "3 - three"


def test_colour_images_are_channels_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / datasets.CIFAR10.base_folder
    folder.mkdir()
    pixels = np.arange(2 * 3072, dtype=np.uint32).astype(np.uint8).reshape(2, 3072)  # red plane, green, blue
    (folder / "few").write_bytes(pickle.dumps({"data": pixels, "labels": [4, 1]}))
    (folder / "meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    for name, value in {
        "train_list": [["few", None]],
        "test_list": [["few", None]],
        "meta": {"filename": "meta", "key": "label_names", "md5": None},
    }.items():
        monkeypatch.setattr(datasets.CIFAR10, name, value)
    data = opened("cifar10", tmp_path)
    images, labels = everything(data.train)
    assert torch.equal(images, torch.from_numpy(pixels).view(2, 3, 32, 32))
    assert images.is_contiguous()
    assert (labels, data.train.classes) == ([4, 1], tuple("abcdefghij"))
