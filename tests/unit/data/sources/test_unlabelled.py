"""Pictures without labels are read as those of a folder are; what cannot be read is black and flagged."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from accel_train.data.images.view import View
from accel_train.data.sources.inputs import Picture, find_pictures
from accel_train.data.sources.picture_files import FolderSource
from accel_train.data.sources.unlabelled import READABLE, UNREADABLE, UnlabelledSource

VIEW = View(16, random_crop=True, fit="pad")


def noise(height: int, width: int, mode: str = "RGB") -> Image.Image:
    pixels_HWC = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels_HWC).convert(mode)


def source(*paths: Path | str, channels: int = 3) -> UnlabelledSource:
    return UnlabelledSource(find_pictures(list(map(str, paths)), bytes).pictures, channels, 32)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Return a folder of pictures of several sizes, modes and formats, one of them turned."""
    folder = tmp_path / "photos"
    folder.mkdir()
    turned = Image.Exif()
    turned[0x0112] = 6
    noise(40, 30).save(folder / "a.jpg", exif=turned)
    noise(1, 1, "L").save(folder / "b.png")
    noise(7, 300, "RGBA").save(folder / "c.webp")
    noise(20, 20, "CMYK").save(folder / "d.jpg")
    return folder


def test_files_are_read_as_those_of_a_folder(photos: Path) -> None:
    names = ("a.jpg", "b.png", "c.webp", "d.jpg")
    folder = FolderSource(("a", "b"), photos, names, np.zeros(4, np.int64), np.zeros(4, np.int64))
    images_BCHW, labels_B = source(photos).read(np.arange(4), None, VIEW)
    assert torch.equal(images_BCHW, folder.read(range(4), None, VIEW)[0])
    assert labels_B.tolist() == [READABLE] * 4
    assert images_BCHW.is_contiguous(memory_format=torch.channels_last)


def test_members_of_a_zip_are_read_as_files(photos: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(photos.iterdir()):
            archive.write(path, path.name)
    files, members = source(photos), source(tmp_path / "a.zip")
    assert len(members) == len(files) == 4
    assert torch.equal(members.read(range(4), None, VIEW)[0], files.read(range(4), None, VIEW)[0])


def test_grey_pixels_are_those_of_pillow(tmp_path: Path) -> None:
    noise(16, 16).save(tmp_path / "a.png")
    noise(16, 16, "L").save(tmp_path / "b.png")
    read = source(tmp_path / "a.png", tmp_path / "b.png", channels=1)
    assert read.shape == (1, 32, 32)
    images_BCHW, _ = read.read(range(2), None, View(16, random_crop=False, centre_share=1.0))
    expected = np.asarray(noise(16, 16).convert("L"))
    assert np.array_equal(images_BCHW[0, 0], expected)
    assert np.array_equal(images_BCHW[1, 0], np.asarray(noise(16, 16, "L")))


def test_unreadable_pictures_are_black_and_have_a_reason(tmp_path: Path) -> None:
    noise(20, 20).save(tmp_path / "good.png")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("no picture")
    noise(40, 30).save(whole := io.BytesIO(), "JPEG")
    (tmp_path / "short.jpg").write_bytes(whole.getvalue()[:-50])
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("unusual.png", b"some")
    paths = [tmp_path / name for name in ("good.png", "empty.jpg", "text.jpg", "short.jpg", "a.zip")]
    found = source(*paths).pictures
    missing = Picture("missing.jpg", str(tmp_path / "missing.jpg"))
    all_of_them = UnlabelledSource((*found, missing, Picture("photos", str(tmp_path))), 3, 32)

    images_BCHW, labels_B = all_of_them.read(range(7), None, VIEW)
    assert labels_B.tolist() == [READABLE, *[UNREADABLE] * 6]
    assert images_BCHW[0].any()
    assert not images_BCHW[1:].any()
    assert [all_of_them.problem(i, VIEW) for i in range(1, 7)] == [
        "the file is empty",
        "not a picture of a known format",
        "Premature end of JPEG file",
        "it is compressed with method 12: zip it with deflate, the usual one",
        "No such file or directory",
        "it is a folder",
    ]
    assert all_of_them.problem(0, VIEW) == "it could be read only when it was tried again"
    few = View(16, random_crop=False, most_pixels=399)
    assert all_of_them.problem(0, few) == "20 × 20 pixels, more than the 399 of --max-pixels, which may be raised"
