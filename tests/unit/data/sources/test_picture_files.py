"""Picture files of any format, mode and orientation are read upright as RGB, cropped by view and key."""

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from accel_train.data.images.crops import random_box
from accel_train.data.sources.base import View
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import LocalError

RED_GREEN_BLUE_WHITE = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]
CENTRE_32 = View(32, random_crop=False)


def files(folder: Path, *names: str, labels: Sequence[int] | None = None) -> FolderSource:
    """Return a source of files in a folder; all have label 1 unless given."""
    labels_N = np.ones(len(names), np.int64) if labels is None else np.array(labels)
    return FolderSource(("a", "b"), folder, names, labels_N, np.zeros(len(names), np.int64))


def picture(folder: Path, image: Image.Image, name: str, **options: object) -> FolderSource:
    image.save(folder / name, **options)
    return files(folder, name)


def quarters() -> Image.Image:
    """Red and green above blue and white, wider than high."""
    pixels_HWC = np.zeros((32, 48, 3), np.uint8)
    pixels_HWC[:16, :24], pixels_HWC[:16, 24:] = (255, 0, 0), (0, 255, 0)
    pixels_HWC[16:, :24], pixels_HWC[16:, 24:] = (0, 0, 255), (255, 255, 255)
    return Image.fromarray(pixels_HWC)


def corners(source: FolderSource) -> list[tuple[int, ...]]:
    image_CHW = source.read([0], None, CENTRE_32)[0][0]
    return [tuple((image_CHW[:, y, x] > 127).int().tolist()) for y in (2, -3) for x in (2, -3)]


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_pictures_are_upright(tmp_path: Path, orientation: int) -> None:
    """d03: phones store the rotation as a tag."""
    stored = quarters().rotate({1: 0, 3: 180, 6: 90, 8: 270}[orientation], expand=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    source = picture(tmp_path, stored, "o.jpg", exif=exif, quality=95)
    assert corners(source) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("name", ["q.png", "q.webp", "q.bmp", "q.gif", "q.ppm", "q.tif", "q.jpg"])
def test_every_format_gives_the_same_picture(tmp_path: Path, name: str) -> None:
    assert corners(picture(tmp_path, quarters(), name)) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "YCbCr", "1"])
def test_every_mode_is_converted_to_rgb(tmp_path: Path, mode: str) -> None:
    name = {"CMYK": "white.tif", "YCbCr": "white.jp2"}.get(mode, "white.png")
    source = picture(tmp_path, Image.new("RGB", (40, 40), (255, 255, 255)).convert(mode), name)
    assert source.read([0], None, CENTRE_32)[0].unique().tolist() == [255]


@pytest.mark.parametrize("name", ["grey.png", "grey.tif"])
def test_sixteen_bit_grey_keeps_its_brightness(tmp_path: Path, name: str) -> None:
    """d02: convert() alone makes all of it white."""
    ramp = Image.fromarray(np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (64, 1)))
    ramped = picture(tmp_path, ramp, name).read([0], None, View(64, random_crop=False))[0]
    assert ramped.double().mean().item() == pytest.approx(127, abs=2)
    assert int(ramped[0, 0, 0, 0]) < 25
    assert int(ramped[0, 0, 0, -1]) > 230
    middle = picture(tmp_path, Image.fromarray(np.full((64, 64), 32768, np.uint16)), f"mid_{name}")
    assert middle.read([0], None, CENTRE_32)[0].unique().tolist() == [128]


def test_first_frame_of_an_animation_is_read(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (16, 16), colour) for colour in ((255, 0, 0), (0, 0, 255)))
    source = picture(tmp_path, first, "moving.gif", save_all=True, append_images=[second])
    assert source.read([0], None, CENTRE_32)[0][0, :, 8, 8].tolist() == [255, 0, 0]


def torn_exif() -> bytes:
    """Make metadata with a valid orientation and an invalid width, on which Pillow fails."""
    entries = struct.pack(">HHI4sHHIHH", 0x0100, 2, 2, b"x\0\0\0", 0x0112, 3, 1, 6, 0)
    return b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">H", 2) + entries + bytes(4)


@pytest.mark.parametrize("name", ["o.jpg", "o.png", "o.webp"])
def test_orientation_is_read_from_damaged_metadata(tmp_path: Path, name: str) -> None:
    stored = quarters().rotate(90, expand=True)
    assert corners(picture(tmp_path, stored, name, exif=torn_exif(), quality=95)) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("random_crop", [False, True])
@pytest.mark.parametrize("harm", ["truncated", "empty", "text"])
def test_damaged_picture_is_named(tmp_path: Path, harm: str, random_crop: bool) -> None:
    """d01"""
    path = tmp_path / "bad.jpg"
    quarters().save(path, "jpeg", exif=torn_exif())
    content = path.read_bytes()
    harmed = {"truncated": content[: len(content) // 2], "empty": b"", "text": b"no picture"}
    path.write_bytes(harmed[harm])
    source = files(tmp_path, "bad.jpg")
    with pytest.raises(LocalError) as caught:
        source.read([0], [7], View(16, random_crop))
    assert caught.value.message.startswith(f"cannot read the picture {path}: ")
    assert "<" not in caught.value.message  # the name of an object in memory


def test_evaluation_reads_the_centre_and_training_the_keys_crop(tmp_path: Path) -> None:
    pixels_HWC = np.random.default_rng(0).integers(0, 256, (64, 80, 3), np.uint8)
    source = picture(tmp_path, Image.fromarray(pixels_HWC), "noise.png")
    centre = torch.from_numpy(pixels_HWC[4:60, 12:68]).permute(2, 0, 1)
    # 56 = 64 × 224 / 256: nothing to resize
    assert torch.equal(source.read([0], [1], View(56, random_crop=False))[0][0], centre)
    random = View(8, random_crop=True)
    first, same, other = (source.read([0], [key], random)[0] for key in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    top, left, rows, columns = random_box(64, 80, 1)
    window = torch.from_numpy(pixels_HWC[top : top + rows, left : left + columns]).permute(2, 0, 1)[None]
    assert torch.equal(first, torch.nn.functional.interpolate(window, size=(8, 8), mode="bilinear", antialias=True))
    central = source.read([0], [1], View(8, random_crop=False))[0]
    assert torch.equal(source.read([0], None, random)[0], central)


def test_picture_is_the_same_in_any_batch(tmp_path: Path) -> None:
    quarters().save(tmp_path / "q.jpg")
    source = files(tmp_path, *["q.jpg"] * 3, labels=(0, 1, 0))
    view = View(12, random_crop=True)
    together, labels = source.read([0, 1, 2], [5, 6, 7], view)
    alone = torch.cat([source.read([i], [5 + i], view)[0] for i in range(3)])
    assert torch.equal(together, alone)
    assert labels.tolist() == [0, 1, 0]
    assert together.is_contiguous(memory_format=torch.channels_last)  # the fastest layout to write and to train on


@pytest.mark.parametrize(
    ("sides", "expected"), [([200] * 3 + [500] * 7, 224), ([20, 20, 20], 32), ([100, 70, 300], 96), ([224] * 90, 224)]
)
def test_shape_is_estimated_from_pictures_spread_over_the_folder(
    tmp_path: Path, sides: list[int], expected: int
) -> None:
    for number, side in enumerate(sides):
        Image.new("1", (side, side + 9)).save(tmp_path / f"{number:03d}.png")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert files(tmp_path, *names).shape == (3, expected, expected)
