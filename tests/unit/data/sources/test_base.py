"""Sources read the images that were asked for, from memory, from files and from users' own data sets."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from accel_train.data.images.crops import FolderSource, centre_box, random_box
from accel_train.data.sources.base import ItemSource, MemorySource, Source, Subset, pixel_statistics, spread
from accel_train.errors import LocalError
from accel_train.rng import make_key


def memory(images: int = 10) -> MemorySource:
    pixels = torch.arange(images, dtype=torch.uint8).view(-1, 1, 1, 1).expand(-1, 1, 2, 3)
    return MemorySource(("a", "b"), pixels, torch.arange(images) % 2)


def picture(folder: Path, image: Image.Image, name: str, size: int = 32, **options: object) -> FolderSource:
    image.save(folder / name, **options)
    return FolderSource(("a", "b"), folder, (name,), (1,), size=size)


def quarters() -> Image.Image:
    """Red and green above blue and white, wider than high."""
    pixels_HWC = np.zeros((32, 48, 3), np.uint8)
    pixels_HWC[:16, :24], pixels_HWC[:16, 24:] = (255, 0, 0), (0, 255, 0)
    pixels_HWC[16:, :24], pixels_HWC[16:, 24:] = (0, 0, 255), (255, 255, 255)
    return Image.fromarray(pixels_HWC)


def corners(source: FolderSource) -> list[tuple[int, ...]]:
    image_CHW = source.read([0], None)[0][0]
    return [tuple((image_CHW[:, y, x] > 127).int().tolist()) for y in (2, -3) for x in (2, -3)]


RED_GREEN_BLUE_WHITE = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]


def test_memory_reads_by_id_in_the_order_asked() -> None:
    images, labels = memory().read([7, 0, 7], [1, 2, 3])
    assert (images.dtype, labels.dtype) == (torch.uint8, torch.int64)
    assert images[:, 0, 0, 0].tolist() == [7, 0, 7]
    assert labels.tolist() == [1, 0, 1]
    assert memory().shape == (1, 2, 3)


@pytest.mark.parametrize(
    ("count", "ids"), [(3, [0, 3, 6]), (10, list(range(10))), (1, [0]), (7, [0, 1, 2, 4, 5, 7, 8])]
)
def test_a_limit_spreads_over_the_source(count: int, ids: list[int]) -> None:
    source = spread(memory(), count)
    assert len(source) == count
    assert source.read(range(count), None)[0][:, 0, 0, 0].tolist() == ids


@pytest.mark.parametrize("count", [None, 10, 11])
def test_no_limit_is_the_source_itself(count: int | None) -> None:
    source = memory()
    assert spread(source, count) is source


def test_a_subset_is_like_its_source() -> None:
    subset = Subset(memory(), np.array([9, 4]))
    moved = subset.at(224, random_crop=True).moved(torch.clone)
    for source in (subset, moved):
        assert (source.classes, source.in_memory, source.shape, len(source)) == (("a", "b"), True, (1, 2, 3), 2)
        assert source.read([1, 0], None)[0][:, 0, 0, 0].tolist() == [4, 9]


def test_statistics_are_those_of_all_pixels_of_each_channel() -> None:
    pixels = torch.tensor([[[[0, 255]], [[51, 51]]], [[[255, 0]], [[51, 51]]]], dtype=torch.uint8)
    mean, std = pixel_statistics(MemorySource(("a", "b"), pixels, torch.tensor([0, 1])))
    assert mean == pytest.approx((0.5, 0.2), rel=1e-12)
    assert std == pytest.approx((0.5, 1 / 255), rel=1e-12)  # never 0: it divides


class Drawn:
    """A user's data set of pictures and of what three generators give."""

    classes = ("a", "b")

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.tensor([[[random.random(), float(np.random.rand()), float(torch.rand(()))]]]), index % 2


def test_items_draw_from_generators_seeded_with_their_keys() -> None:
    source = ItemSource(("a", "b"), Drawn())
    drawn = source.read([0, 1, 2], [5, 6, 5])[0]
    assert torch.equal(drawn[0], drawn[2])
    assert not (drawn[0] == drawn[1]).any()
    assert torch.equal(source.read([3], [6])[0][0], drawn[1])


def test_items_of_an_evaluation_are_the_same_every_time() -> None:
    source: Source = ItemSource(("a", "b"), Drawn())
    images, labels = source.read([0, 1], None)
    assert torch.equal(source.read([1, 0], None)[0], images.flip(0))
    assert labels.tolist() == [0, 1]
    assert pixel_statistics(source) == ((0.0,), (1.0,))


def test_items_may_be_pictures() -> None:
    items = [(Image.new("RGB", (3, 2), (1, 2, 3)), 1), (Image.new("RGB", (3, 2)), torch.tensor(0))]
    images, labels = ItemSource(("a", "b"), items).read([0, 1], None)
    assert (images.shape, images.dtype) == ((2, 3, 2, 3), torch.uint8)
    assert images[0, :, 1, 2].tolist() == [1, 2, 3]
    assert labels.tolist() == [1, 0]


@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_pictures_stand_upright(tmp_path: Path, orientation: int) -> None:
    """d03: the tag that phones write says how far a picture was turned."""
    stored = quarters().rotate({1: 0, 3: 180, 6: 90, 8: 270}[orientation], expand=True)
    exif = Image.Exif()
    exif[0x0112] = orientation
    source = picture(tmp_path, stored, "o.jpg", exif=exif, quality=95)
    assert corners(source) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("name", ["q.png", "q.webp", "q.bmp", "q.gif", "q.ppm", "q.tif", "q.jpg"])
def test_every_format_gives_the_same_picture(tmp_path: Path, name: str) -> None:
    assert corners(picture(tmp_path, quarters(), name)) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "YCbCr", "1"])
def test_every_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    name = "white.tif" if mode in ("CMYK", "YCbCr") else "white.png"
    source = picture(tmp_path, Image.new("RGB", (40, 40), (255, 255, 255)).convert(mode), name)
    assert source.read([0], None)[0].unique().tolist() == [255]


@pytest.mark.parametrize("name", ["grey.png", "grey.tif"])
def test_sixteen_bits_of_grey_keep_their_brightness(tmp_path: Path, name: str) -> None:
    """d02: convert() alone makes all of it white."""
    ramp = Image.fromarray(np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (64, 1)))
    ramped = picture(tmp_path, ramp, name, size=64).read([0], None)[0]
    assert ramped.double().mean().item() == pytest.approx(127, abs=2)
    assert int(ramped[0, 0, 0, 0]) < 25
    assert int(ramped[0, 0, 0, -1]) > 230
    middle = picture(tmp_path, Image.fromarray(np.full((64, 64), 32768, np.uint16)), f"mid_{name}")
    assert middle.read([0], None)[0].unique().tolist() == [128]


def test_a_moving_pictures_first_frame_is_read(tmp_path: Path) -> None:
    first, second = (Image.new("RGB", (16, 16), colour) for colour in ((255, 0, 0), (0, 0, 255)))
    source = picture(tmp_path, first, "moving.gif", save_all=True, append_images=[second])
    assert source.read([0], None)[0][0, :, 8, 8].tolist() == [255, 0, 0]


def torn_exif() -> bytes:
    """Make metadata that say "turn me" and give the picture's width as a word, which Pillow cannot bear."""
    entries = struct.pack(">HHI4sHHIHH", 0x0100, 2, 2, b"x\0\0\0", 0x0112, 3, 1, 6, 0)
    return b"Exif\0\0MM\0*\0\0\0\x08" + struct.pack(">H", 2) + entries + bytes(4)


def test_torn_metadata_of_a_jpeg_still_tell_how_it_stands(tmp_path: Path) -> None:
    stored = quarters().rotate(90, expand=True)
    assert corners(picture(tmp_path, stored, "o.jpg", exif=torn_exif(), quality=95)) == RED_GREEN_BLUE_WHITE


@pytest.mark.parametrize("random_crop", [False, True])
@pytest.mark.parametrize("harm", ["truncated", "empty", "text", "torn exif"])
def test_a_damaged_picture_names_its_path(tmp_path: Path, harm: str, random_crop: bool) -> None:
    """d01"""
    path = tmp_path / "bad.jpg"
    quarters().save(path, "png" if harm == "torn exif" else "jpeg", exif=torn_exif())
    whole = path.read_bytes()
    harmed = {"truncated": whole[: len(whole) // 2], "empty": b"", "text": b"no picture", "torn exif": whole}
    path.write_bytes(harmed[harm])
    source = FolderSource(("a", "b"), tmp_path, ("bad.jpg",), (0,), size=16, random_crop=random_crop)
    with pytest.raises(LocalError) as caught:
        source.read([0], [7])
    assert caught.value.message.startswith(f"cannot read the picture {path}: ")
    assert "<" not in caught.value.message  # the name of an object in memory


@pytest.mark.parametrize("size", [(1, 1), (5, 400), (300, 200), (32, 48)])
def test_random_boxes_lie_in_the_picture_and_are_fixed_by_their_key(size: tuple[int, int]) -> None:
    height, width = size
    boxes = [random_box(height, width, make_key("box", i)) for i in range(300)]
    assert boxes == [random_box(height, width, make_key("box", i)) for i in range(300)]
    for top, left, rows, columns in boxes:
        assert 0 <= top <= height - rows < height
        assert 0 <= left <= width - columns < width


def test_random_boxes_have_the_papers_areas_and_ratios() -> None:
    """Szegedy et al. 2015, §6: 8 to 100 % of the area, sides 3/4 to 4/3."""
    boxes = [random_box(1000, 1000, make_key("box", i)) for i in range(2000)]
    areas = [rows * columns / 1e6 for _, _, rows, columns in boxes]
    ratios = [columns / rows for _, _, rows, columns in boxes]
    assert (min(areas), max(areas)) == pytest.approx((0.08, 1.0), abs=0.02)
    assert sum(area < 0.5 for area in areas) / 2000 == pytest.approx(0.48, abs=0.05)  # little is redrawn
    assert (min(ratios), max(ratios)) == pytest.approx((3 / 4, 4 / 3), abs=0.01)
    assert sum(ratio < 1 for ratio in ratios) / 2000 == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("size", "box"),
    [((256, 256), (16, 16, 224, 224)), ((32, 48), (2, 10, 28, 28)), ((1, 1), (0, 0, 1, 1)), ((7, 3), (2, 0, 3, 3))],
)
def test_the_centre_box(size: tuple[int, int], box: tuple[int, int, int, int]) -> None:
    assert centre_box(*size) == box


def test_evaluation_reads_the_centre_and_training_what_the_key_says(tmp_path: Path) -> None:
    pixels_HWC = np.random.default_rng(0).integers(0, 256, (64, 80, 3), np.uint8)
    source = picture(tmp_path, Image.fromarray(pixels_HWC), "noise.png", size=56)
    centre = torch.from_numpy(pixels_HWC[4:60, 12:68]).permute(2, 0, 1)
    assert torch.equal(source.read([0], [1])[0][0], centre)  # 56 = 64 × 224 / 256: nothing to resize
    cropping = source.at(8, random_crop=True)
    first, same, other = (cropping.read([0], [key])[0] for key in (1, 1, 2))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    top, left, rows, columns = random_box(64, 80, 1)
    window = torch.from_numpy(pixels_HWC[top : top + rows, left : left + columns]).permute(2, 0, 1)[None]
    assert torch.equal(first, torch.nn.functional.interpolate(window, size=(8, 8), mode="bilinear", antialias=True))
    assert torch.equal(cropping.read([0], None)[0], source.at(8, random_crop=False).read([0], None)[0])


def test_a_picture_is_the_same_in_any_batch(tmp_path: Path) -> None:
    quarters().save(tmp_path / "q.jpg")
    source = FolderSource(("a", "b"), tmp_path, ("q.jpg",) * 3, (0, 1, 0), size=12, random_crop=True)
    together, labels = source.read([0, 1, 2], [5, 6, 7])
    alone = torch.cat([source.read([i], [5 + i])[0] for i in range(3)])
    assert torch.equal(together, alone)
    assert labels.tolist() == [0, 1, 0]
    assert together.is_contiguous(memory_format=torch.channels_last)  # a batch of another layout takes longer


@pytest.mark.parametrize(
    ("sides", "expected"), [([200] * 3 + [500] * 7, 224), ([20, 20, 20], 32), ([100, 70, 300], 96), ([224] * 90, 224)]
)
def test_a_folders_size_is_guessed_from_pictures_spread_over_it(
    tmp_path: Path, sides: list[int], expected: int
) -> None:
    for number, side in enumerate(sides):
        Image.new("1", (side, side + 9)).save(tmp_path / f"{number:03d}.png")
    paths = tuple(sorted(path.name for path in tmp_path.iterdir()))
    assert FolderSource(("a",), tmp_path, paths, (0,) * len(paths)).shape == (3, expected, expected)
