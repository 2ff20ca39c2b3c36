"""Published data sets are read as their files say, and downloaded once by many processes."""

import gzip
import hashlib
import http.server
import pickle
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchvision import datasets

from accel_train.data.sources import fashion_mnist as idx_files
from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, Source
from accel_train.errors import UserError

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def idx(array: np.ndarray[Any, Any]) -> bytes:
    """Return unsigned bytes in LeCun's format: two zeros, type 8, dimensions, big-endian sizes, values."""
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes((0, 0, 8, array.ndim)) + sizes + array.astype(np.uint8).tobytes()


def tiny_mnist(train: int = 30, val: int = 20) -> dict[str, bytes]:
    """Return the four files' contents: image n is filled with n, its label is n modulo 10."""
    contents = []
    for images in (train, val):
        numbers = np.arange(images)
        contents += [idx(np.broadcast_to(numbers[:, None, None], (images, 4, 3))), idx(numbers % 10)]
    return dict(zip(FILES, contents, strict=True))


def opened(name: str, directory: Path | None = None) -> DataSet:
    return open_data(name, directory=directory, val_fraction=None, seed=0, limit=None)


def everything(source: Source) -> tuple[torch.Tensor, list[int]]:
    images, labels = source.read(range(len(source)), None)
    return images, labels.tolist()


def test_the_digits_are_1797_and_split_alike_in_every_class() -> None:
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


def test_the_installed_fashion_mnist_is_whole() -> None:
    """Debian's package dataset-fashion-mnist must be there: this test does not skip."""
    data = opened("fashion-mnist")
    assert data.place == "from /usr/share/datasets/fashion-mnist"
    assert (len(data.train), len(data.val), data.train.shape) == (60_000, 10_000, (1, 28, 28))
    assert data.train.classes[9] == "Ankle boot"
    for source, count in ((data.train, 6000), (data.val, 1000)):
        assert Counter(everything(source)[1]) == dict.fromkeys(range(10), count)
    assert everything(data.train)[1][:5] == [9, 0, 0, 3, 0]
    assert (*data.mean, *data.std) == pytest.approx((0.286, 0.353), abs=0.003)  # as published, of all images


@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
@pytest.mark.parametrize("packed", [True, False])
def test_idx_files_are_read_packed_and_plain(tmp_path: Path, packed: bool, below: str) -> None:
    folder = tmp_path / below
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in tiny_mnist().items():
        (folder / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(content) if packed else content)
    data = opened("fashion-mnist", tmp_path)
    images, labels = everything(data.train)
    assert images.shape == (30, 1, 4, 3)
    assert torch.equal(images, torch.arange(30, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 4, 3))
    assert labels == [n % 10 for n in range(30)]
    assert len(data.val) == 20


def test_files_read_ahead_are_those_that_are_opened_and_later_ones_are_read_anew(tmp_path: Path) -> None:
    for name, content in tiny_mnist().items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    idx_files.read_ahead(tmp_path)
    idx_files._begun[tmp_path / f"{FILES[0]}.gz"].result()
    changed = tiny_mnist()[FILES[0]][:-1] + b"\xff"
    (tmp_path / f"{FILES[0]}.gz").write_bytes(gzip.compress(changed))
    assert [int(everything(opened("fashion-mnist", tmp_path).train)[0].max()) for _ in range(2)] == [29, 255]


def test_nothing_is_read_ahead_where_nothing_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idx_files, "_DEBIAN", tmp_path)
    idx_files.read_ahead(tmp_path / "none")
    assert not idx_files._begun


def test_a_damaged_file_read_ahead_is_named(tmp_path: Path) -> None:
    for name, content in tiny_mnist().items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    path = tmp_path / f"{FILES[0]}.gz"
    path.write_bytes(damaged(tiny_mnist()[FILES[0]], "torn gzip"))
    idx_files.read_ahead(tmp_path)
    with pytest.raises(UserError, match=f"cannot read {path}: "):
        opened("fashion-mnist", tmp_path)


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


@pytest.mark.parametrize(
    "harm", ["no gzip", "torn gzip", "broken gzip", "short", "long", "header alone", "nothing", "magic", "dimensions"]
)
def test_a_damaged_idx_file_is_named(tmp_path: Path, harm: str) -> None:
    for name, content in tiny_mnist().items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    path = tmp_path / f"{FILES[2]}.gz"
    path.write_bytes(damaged(tiny_mnist()[FILES[2]], harm))
    with pytest.raises(UserError) as caught:
        opened("fashion-mnist", tmp_path)
    assert caught.value.message.startswith(f"cannot read {path}: ")
    assert caught.value.hint == "fetch the four files again, or give another --data-dir"


def test_a_missing_idx_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILES[0]).write_bytes(tiny_mnist()[FILES[0]])
    with pytest.raises(UserError, match=f"cannot read {tmp_path / FILES[1]}: .*No such file"):
        opened("fashion-mnist", tmp_path)


def test_images_and_labels_of_different_numbers_are_refused(tmp_path: Path) -> None:
    for name, content in (tiny_mnist() | {FILES[1]: idx(np.zeros(29))}).items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"{tmp_path} has 30 train images and 29 labels"):
        opened("fashion-mnist", tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Serve tiny_mnist from this machine; yield the address and how often each file was fetched."""
    served = tmp_path / "served"
    served.mkdir()
    for name, content in tiny_mnist().items():
        (served / f"{name}.gz").write_bytes(gzip.compress(content, mtime=0))
    fetched: Counter[str] = Counter()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(served))

        def do_GET(self) -> None:
            if self.headers["Method"] != "HEAD":  # so torchvision asks for redirections, by GET
                fetched[self.path.lstrip("/")] += 1
            super().do_GET()

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/", fetched
        running.shutdown()
        thread.join()


def resources() -> list[tuple[str, str]]:
    return [(f"{n}.gz", hashlib.md5(gzip.compress(c, mtime=0)).hexdigest()) for n, c in tiny_mnist().items()]


PROCESS = """
import sys, time
from pathlib import Path
from torchvision import datasets
from accel_train.data.sources import fashion_mnist as idx_files
from accel_train.data.open import open_data

number, root, mirror, resources = sys.argv[1], Path(sys.argv[2]), sys.argv[3], eval(sys.argv[4])
datasets.MNIST.mirrors, datasets.MNIST.resources = [mirror], resources
(root / f"ready_{number}").touch()
while len(list(root.glob("ready_*"))) < 2:
    time.sleep(0.005)
data = open_data("mnist", directory=root / "cache", val_fraction=None, seed=0, limit=None)
print(len(data.train), len(data.val), data.train.read([7], None)[0].unique().tolist())
"""


def test_two_processes_download_each_file_once_and_both_see_all_of_it(
    tmp_path: Path, server: tuple[str, Counter[str]]
) -> None:
    """d09"""
    address, fetched = server
    words = [str(tmp_path), address, repr(resources())]
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PROCESS, str(number), *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        ended = [(*process.communicate(timeout=120), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [(out, code) for out, _, code in ended] == [("30 20 [7]\n", 0)] * 2, ended
    assert fetched == {f"{name}.gz": 1 for name in FILES}


@pytest.mark.parametrize("wrong", ["address", "checksum"])
def test_a_failed_download_names_data_and_folder(
    tmp_path: Path, server: tuple[str, Counter[str]], monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr(datasets.MNIST, "mirrors", ["http://127.0.0.1:1/" if wrong == "address" else server[0]])
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
    data = opened("mnist")  # nothing to download
    assert (data.kind, data.place, len(data.train)) == ("mnist", f"from {tmp_path / 'accel_train'}", 30)
    assert data.train.classes[3] == "3 - three"


def test_colour_images_come_channels_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
