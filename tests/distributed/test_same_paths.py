"""Results do not depend on how images are read: from files or packed, with or without loader workers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from helpers.comparing import flags, greatest_difference, ids, losses
from helpers.runner import Runner
from PIL import Image
from torch import Tensor

from accel_train.data.loader import TrainReader
from accel_train.data.open import open_data
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import View
from accel_train.data.worker_batches import Batch

pytestmark = pytest.mark.xdist_group("same paths")  # the tests share runs

HERE = Path(__file__).parent
SIDE = 40
RUN = {
    **{"model": "networks:normalised", "global_batch_size": 24, "batch_size": 4, "limit": 48, "epochs": 10},
    **{"augment": "standard", "precision": "fp64", "lr": 0.05, "log_every": 1},
}
FILES, PACKED = (f"--data {name} --image-size 24" for name in ("photographs", "packed"))
WAYS = {
    "pictures": (f"{FILES} --workers 0", f"{FILES} --workers 2", f"{PACKED} --workers 0", f"{PACKED} --workers 2"),
    "in memory": ("--cache off", "--cache device", "--cache ram", "--cache ram --workers 2"),
}
"""Options by which a run reads the same images in different ways."""


def photograph(height: int, width: int, seed: int) -> Image.Image:
    """Return a smooth random picture."""
    places = np.random.default_rng(seed).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(places).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner in a folder of JPEGs of all orientations, shorter side SIDE, that are also packed losslessly."""
    run = Runner(tmp_path_factory.mktemp("pictures"))
    for number in range(60):
        path = run.folder / "photographs" / "ab"[number % 2] / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = Image.Exif()
        exif[0x0112] = 1 + number % 8
        size = (SIDE, SIDE + number) if number % 3 else (SIDE + number, SIDE)
        photograph(*size, seed=number).save(path, quality=90, exif=exif)
    ended = run("pack", "photographs", "packed", "--side", str(SIDE))
    assert ended.code == 0, ended.err
    return run


def carry_out(pictures: Runner, way: str, processes: int) -> Path:
    """Train and return the run's folder."""
    folder = pictures.folder / f"{way} on {processes}"
    words = [*flags({**RUN, "output": folder}), *way.split()]
    ended = pictures("train", *words, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return folder


def different_from_first(folders: Sequence[Path]) -> list[str]:
    """Return the names of the runs whose weights differ from those of the first."""
    first, *others = (
        [(folder / f"{name}.safetensors").read_bytes() for name in ("model", "best")] for folder in folders
    )
    return [folder.name for folder, files in zip(folders[1:], others, strict=True) if files != first]


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
def test_results_do_not_depend_on_how_images_are_read(pictures: Runner, ways: Sequence[str]) -> None:
    alone, together = ([carry_out(pictures, way, processes) for way in ways] for processes in (1, 2))
    assert different_from_first(alone) == []
    assert different_from_first(together) == []
    assert len(losses(alone[0], 1)) == 20
    assert losses(together[0], 2) == pytest.approx(losses(alone[0], 1), rel=1e-7)
    assert ids(together[0], 2) == ids(alone[0], 1)
    assert greatest_difference(alone[0], together[0]) < 1e-7


def read_epoch(data: Path, size: int, epoch: int) -> Tensor:
    """Return images_BCHW of all sample indices of an epoch, in the order of the images."""
    source = open_data(str(data), directory=None, val_fraction=None, seed=0, limit=None).train
    sample_indices = np.sort(ImageOrder(0, len(source)).sample_indices(epoch))
    batch = TrainReader(source, View(size, random_crop=True), 0).__getitems__(sample_indices)
    assert isinstance(batch, Batch)
    return batch.images_BCHW.double()


def test_lossless_packing_keeps_the_pixels_of_every_crop(pictures: Runner) -> None:
    images, packed = (read_epoch(pictures.folder / name, 24, epoch=1) for name in ("photographs", "packed"))
    assert packed.equal(images)


@pytest.mark.parametrize("size", [16, 8])
def test_crops_of_scaled_decoding_agree_to_half_a_pixel(pictures: Runner, size: int) -> None:
    """A crop's edges are rounded to pixels of the smaller picture, and it has at least `size` of them."""
    images, other_crops = (read_epoch(pictures.folder / "photographs", size, epoch) for epoch in (1, 2))
    packed = read_epoch(pictures.folder / "packed", size, epoch=1)
    down_B, right_B = (packed.diff(dim=dim).abs().mean((1, 2, 3)) for dim in (2, 3))
    half_a_pixel_B = (down_B + right_B) / 2
    assert (difference(packed, images) < half_a_pixel_B).all()
    assert (difference(packed, other_crops) > half_a_pixel_B).double().mean() > 0.9


def difference(images_BCHW: Tensor, others_BCHW: Tensor) -> Tensor:
    """Return the mean difference of pixels for each image."""
    return (images_BCHW - others_BCHW).abs().mean((1, 2, 3))
