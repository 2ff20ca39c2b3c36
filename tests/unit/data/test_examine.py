"""What is found of each image, whether it is read from a file, a table or memory."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from accel_train.data.examine import Examined, examine
from accel_train.data.images.view import View
from accel_train.data.packing.pack import begin, pack
from accel_train.data.packing.source import open_packed_for_evaluation
from accel_train.data.sources.base import Ids, Source, spread
from accel_train.data.sources.folder import list_folder
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.picture_files import FolderSource

MOST = 10**6


def smooth(height: int = 48, width: int = 64, seed: int = 0) -> Image.Image:
    """Return a picture that has a perceptual hash of its own."""
    small = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def pictures(root: Path, **files: Image.Image) -> FolderSource:
    """Write pictures of one class, in the order of their names, and one of another class."""
    for name, image in files.items():
        path = root / "a" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path)
    (root / "b").mkdir()
    Image.new("RGB", (40, 40), (255, 0, 51)).save(root / "b/plain.png")
    return list_folder(root).splits["all"]


def found(source: Source, workers: int = 0) -> list[Examined]:
    return [image for some in examine(source, MOST, workers) for image in some]


def test_pictures_are_examined_in_order(tmp_path: Path) -> None:
    source = pictures(tmp_path, one=smooth(), same=smooth(), zoo=smooth(seed=1))
    one, same, zoo, plain = found(source)
    assert (one.height, one.width, one.problem) == (48, 64, "")
    assert one == same
    assert one.digest != zoo.digest
    assert isinstance(one.likeness, int)
    assert one.likeness != zoo.likeness
    assert plain.likeness is None
    assert plain.mean == pytest.approx((1, 0, 0.2))
    assert plain.square == pytest.approx((1, 0, 0.04))


def test_likeness_survives_another_size_and_format(tmp_path: Path) -> None:
    source = pictures(tmp_path, one=smooth(96, 128), two=smooth(96, 128).resize((64, 48)), zoo=smooth(96, 128, seed=1))
    one, two, zoo, _ = (image.likeness for image in found(source))
    assert one is not None
    assert two is not None
    assert zoo is not None
    assert (one ^ two).bit_count() <= 4 < (one ^ zoo).bit_count()


def test_picture_that_cannot_be_read_has_a_problem(tmp_path: Path) -> None:
    source = pictures(tmp_path, broken=smooth(), gone=smooth(), huge=Image.new("L", (1001, 1000)))
    (tmp_path / "a/broken.png").write_bytes(b"no picture")
    (tmp_path / "a/gone.png").unlink()
    broken, gone, huge, plain = found(source)
    assert broken.problem == "not a picture of a known format"
    assert "No such file" in gone.problem
    assert "1,001 × 1,000 pixels, more than the 1,000,000" in huge.problem
    assert plain.problem == ""
    assert (broken.digest, broken.likeness, broken.height) == (b"", None, 0)


def test_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    source = pictures(tmp_path, **{f"p{number:03d}": smooth(seed=number % 40) for number in range(140)})
    alone = found(source)
    assert len(alone) == 141
    assert found(source, workers=2) == alone
    assert found(spread(source, 3)) == [alone[number * 141 // 3] for number in range(3)]


def test_packed_pictures_are_those_of_the_folder(tmp_path: Path) -> None:
    source = pictures(tmp_path / "src", one=smooth(), two=smooth(60, 50, seed=1))
    begun = begin(tmp_path / "src", tmp_path / "dst", side=256)
    list(pack(begun, 1))
    begun.lock.release()
    packed = open_packed_for_evaluation(tmp_path / "dst", ("a", "b"), "x").splits["all"]
    found_there, here = found(packed), found(source)
    assert [(e.height, e.width, e.mean, e.likeness) for e in found_there] == [
        (e.height, e.width, e.mean, e.likeness) for e in here
    ]
    assert [(e.height, e.width) for e in here] == [(48, 64), (60, 50), (40, 40)]


def test_images_in_memory_are_examined_too() -> None:
    images_NCHW = torch.zeros(3, 1, 40, 40, dtype=torch.uint8)
    images_NCHW[1:, 0, 10:20] = 255
    first, second, third = found(MemorySource(("a", "b"), images_NCHW, torch.tensor([0, 1, 0])))
    assert (first.height, first.width, first.likeness, first.mean) == (40, 40, None, (0.0,))
    assert second == third
    assert second.mean == pytest.approx((0.25,))
    assert second.likeness is not None


def test_small_images_have_no_likeness() -> None:
    images_NCHW = torch.arange(2 * 8 * 8, dtype=torch.uint8).view(2, 1, 8, 8)
    assert [image.likeness for image in found(MemorySource(("a", "b"), images_NCHW, torch.tensor([0, 1])))] == [
        None
    ] * 2


class Floats:
    """A user's source of normalised images, the last of which cannot be read."""

    classes, shape = ("a", "b"), (2, 5, 6)

    def __len__(self) -> int:
        return 3

    def read(self, ids: Ids, keys: Ids | None, view: View) -> tuple[Tensor, Tensor]:
        if list(ids) == [2]:
            raise ValueError("no such image")
        return torch.full((len(ids), 2, 5, 6), float(ids[0])), torch.zeros(len(ids), dtype=torch.int64)


def test_images_of_a_users_source_are_read_one_by_one() -> None:
    first, second, third = found(Floats())
    assert (first.height, first.width, first.mean, first.likeness) == (0, 0, (), None)
    assert first.digest != second.digest
    assert third.problem == "no such image"
