"""A loaded run prepares pictures in every form in the same way."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.exports import photographs, run_model
from PIL import Image

from accel_train.data.sources.inputs import Picture
from accel_train.data.sources.unlabelled import UnlabelledSource
from accel_train.errors import UserError
from accel_train.run.loaded import loaded


def encoded(pixels_HWC: np.ndarray, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels_HWC).save(file, kind, **more)
    return file.getvalue()


def test_all_forms_of_a_picture_give_the_same_image(tmp_path: Path) -> None:
    run = run_model("mlp", 24)
    use = loaded(run)
    pixels_HWC = photographs()[0][:101, :77]
    file = encoded(pixels_HWC, "PNG")
    path = tmp_path / "one.png"
    path.write_bytes(file)
    images = [use.preprocess(form) for form in (path, str(path), file, Image.open(path), pixels_HWC)]
    assert images[0].shape == (3, 24, 24)
    assert images[0].dtype == torch.float32
    assert all(torch.equal(image, images[0]) for image in images)
    assert (use.model, use.classes) == (run.module, ("a", "b"))
    assert not use.model.training


@pytest.mark.parametrize("grey", [False, True])
def test_image_is_that_of_predict(tmp_path: Path, grey: bool) -> None:
    run = run_model("mlp", 24, grey=grey, data="digits" if grey else "photos")
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    path.write_bytes(encoded(photographs()[0], "JPEG", exif=exif))  # large enough for a fraction
    source = UnlabelledSource([Picture(str(path), str(path))], 1 if grey else 3, 24)
    read_1CHW, _ = source.read([0], None, run.picture_view)
    expected_CHW = run.transform(torch.float32, torch.device("cpu"))(read_1CHW)[0]
    assert torch.equal(loaded(run).preprocess(path), expected_CHW)
    with Image.open(path) as picture:  # which Pillow decodes at full size
        assert torch.equal(loaded(run).preprocess(picture), expected_CHW)


def test_grey_and_transparent_pictures() -> None:
    preprocess = loaded(run_model("mlp", 8)).preprocess
    grey_HW = np.arange(64, dtype=np.uint8).reshape(8, 8)
    assert torch.equal(preprocess(grey_HW), preprocess(np.stack([grey_HW] * 3, axis=2)))
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert torch.equal(preprocess(clear), preprocess(np.full((8, 8, 3), 255, np.uint8)))


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        (Path("missing.png"), "cannot read the picture missing.png: "),
        (b"", "cannot read the picture: the file is empty"),
        (np.zeros((8, 8, 3)), "pixels of type float64 and shape"),
        (np.zeros((8, 8, 4), np.uint8), "pixels of type uint8 and shape"),
        (np.zeros((0, 8, 3), np.uint8), "pixels of type uint8 and shape"),
    ],
)
def test_what_is_no_picture_is_refused(picture: object, message: str) -> None:
    with pytest.raises(UserError, match=message):
        loaded(run_model("mlp", 8)).preprocess(picture)


def test_model_of_other_channels_takes_no_pictures() -> None:
    run = run_model("mlp", 8, channels=2, data_channels=2, mean=(0.5, 0.5), std=(0.2, 0.2))
    with pytest.raises(UserError, match="the images of run have 2 channels, pictures have 1 or 3"):
        loaded(run).preprocess(np.zeros((8, 8, 3), np.uint8))
