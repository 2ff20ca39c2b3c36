"""FashionMNIST is read from IDX files, gzipped or not, and damaged files are named."""

import gzip
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.tiny_mnist import FILES, idx, tiny_mnist

from accel_train.data.open import open_data
from accel_train.data.sources import fashion_mnist_files as files
from accel_train.data.sources.base import DataSet, Source, View
from accel_train.errors import UserError


def opened(directory: Path | None = None) -> DataSet:
    return open_data("fashion-mnist", directory=directory, val_fraction=None, seed=0, limit=None)


def everything(source: Source) -> tuple[torch.Tensor, list[int]]:
    images, labels = source.read(range(len(source)), None, View(28, random_crop=False))
    return images, labels.tolist()


def write_gzipped(folder: Path) -> None:
    for name, content in tiny_mnist().items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))


def damaged(content: bytes, harm: str) -> bytes:
    packed = gzip.compress(content)
    return {
        "no gzip": content,
        "torn gzip": packed[: len(packed) // 2],
        "broken gzip": packed[:12] + bytes(8) + packed[20:],
        "short": gzip.compress(content[:-1]),
        "long": gzip.compress(content + b"\0"),
        "header alone": gzip.compress(content[:6]),
        "nothing": b"",
        "magic": gzip.compress(b"\0\0\x09" + content[3:]),
        "dimensions": gzip.compress(b"\0\0\x08\x02" + content[4:]),
    }[harm]


def test_installed_files_are_complete() -> None:
    """Debian's package dataset-fashion-mnist must be installed: this test does not skip."""
    data = opened()
    assert data.origin == "from /usr/share/datasets/fashion-mnist"
    assert (len(data.train), len(data.val), data.train.shape) == (60_000, 10_000, (1, 28, 28))
    assert data.train.classes[9] == "Ankle boot"
    for source, count in ((data.train, 6000), (data.val, 1000)):
        assert Counter(everything(source)[1]) == dict.fromkeys(range(10), count)
    assert everything(data.train)[1][:5] == [9, 0, 0, 3, 0]
    assert (*data.mean, *data.std) == pytest.approx((0.286, 0.353), abs=0.003)  # as published, of all images


@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
@pytest.mark.parametrize("gzipped", [True, False])
def test_files_are_read_gzipped_and_plain(tmp_path: Path, gzipped: bool, below: str) -> None:
    folder = tmp_path / below
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tiny_mnist().items():
        (folder / f"{name}{'.gz' * gzipped}").write_bytes(gzip.compress(content) if gzipped else content)
    data = opened(tmp_path)
    images, labels = everything(data.train)
    assert images.shape == (30, 1, 4, 3)
    assert torch.equal(images, torch.arange(30, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 3))
    assert labels == [n % 10 for n in range(30)]
    assert len(data.val) == 20


@pytest.mark.parametrize(
    "harm", ["no gzip", "torn gzip", "broken gzip", "short", "long", "header alone", "nothing", "magic", "dimensions"]
)
def test_damaged_file_is_named(tmp_path: Path, harm: str) -> None:
    write_gzipped(tmp_path)
    path = tmp_path / f"{FILES[2]}.gz"
    path.write_bytes(damaged(tiny_mnist()[FILES[2]], harm))
    with pytest.raises(UserError) as caught:
        opened(tmp_path)
    assert caught.value.message.startswith(f"cannot read {path}: ")
    assert caught.value.hint == "fetch the four files again, or give another --data-dir"


def test_file_read_ahead_is_opened_and_a_later_one_is_read_again(tmp_path: Path) -> None:
    write_gzipped(tmp_path)
    path = tmp_path / f"{FILES[0]}.gz"
    files.read_ahead(tmp_path)
    files._started[path].result()
    path.write_bytes(gzip.compress(tiny_mnist()[FILES[0]][:-1] + b"\xff"))
    assert [int(everything(opened(tmp_path).train)[0].max()) for _ in range(2)] == [29, 255]


def test_damaged_file_read_ahead_is_named(tmp_path: Path) -> None:
    write_gzipped(tmp_path)
    path = tmp_path / f"{FILES[0]}.gz"
    path.write_bytes(damaged(tiny_mnist()[FILES[0]], "torn gzip"))
    files.read_ahead(tmp_path)
    with pytest.raises(UserError, match=f"cannot read {path}: "):
        opened(tmp_path)


def test_missing_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILES[0]).write_bytes(tiny_mnist()[FILES[0]])
    with pytest.raises(UserError, match=f"cannot read {tmp_path / FILES[1]}: .*No such file"):
        opened(tmp_path)


def test_different_numbers_of_images_and_labels_are_rejected(tmp_path: Path) -> None:
    for name, content in (tiny_mnist() | {FILES[1]: idx(np.zeros(29))}).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{tmp_path} has 30 train images and 29 labels"):
        opened(tmp_path)
