"""Preprocessing in a graph, and that which preprocessing.json describes, are those of `predict`."""

from typing import Any

import numpy as np
import pytest
import torch
from helpers.exports import odd_photographs, run_model
from numpy.typing import NDArray
from PIL import Image

from accel_train.data.images.view import View
from accel_train.export.preprocessing import Preprocessing, preprocessing_of
from accel_train.export.resizing import FILTERS, side_matrix
from accel_train.run.inference import RunModel
from accel_train.run.loaded import loaded

RUNS: dict[str, dict[str, Any]] = {
    "crop": {},
    "whole shorter side": {"eval_crop": 1.0},
    "pad": {"fit": "pad", "size": 17},
    "squash": {"fit": "squash", "interpolation": "bicubic"},
    "grey images of one size": {"data": "digits", "grey": True},
    "enlarged for the model": {"data": "digits", "data_size": 8, "interpolation": "bicubic"},
    "grey images for three channels": {"data": "digits", "grey": True, "name": "resnet18", "size": 32},
    "grey images, mean of three channels": {
        **{"data": "digits", "grey": True, "name": "resnet18", "size": 32},
        **{"mean": (0.1, 0.2, 0.3), "std": (0.3, 0.4, 0.5)},
    },
}


def of_run(case: str) -> RunModel:
    return run_model(**RUNS[case])


@pytest.mark.parametrize("case", RUNS)
def test_graph_prepares_pictures_as_predict_does(case: str) -> None:
    run = of_run(case)
    steps, preprocess = preprocessing_of(run), loaded(run).preprocess
    for pixels_HWC in odd_photographs():
        found_CHW = steps.image(torch.from_numpy(pixels_HWC)[None])[0]
        expected_CHW = preprocess(pixels_HWC)
        assert found_CHW.shape == expected_CHW.shape
        differences = (found_CHW - expected_CHW).abs()
        assert differences.max() < 2.1 / 255 / min(steps.std)  # two roundings, each to the other side
        assert (differences > 1e-4).float().mean() < 0.15  # few, but enlarging spreads them


@pytest.mark.parametrize("case", RUNS)
def test_described_steps_are_those_of_predict(case: str) -> None:
    run = of_run(case)
    steps, preprocess = preprocessing_of(run), loaded(run).preprocess
    for pixels_HWC in odd_photographs():
        differences = np.abs(with_pillow(steps, pixels_HWC) - preprocess(pixels_HWC).numpy())
        assert differences.max() < 2.1 / 255 / min(steps.std)
        assert differences.mean() < 0.1 / 255 / min(steps.std)


def with_pillow(steps: Preprocessing, pixels_HWC: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Follow the numbers of preprocessing.json with Pillow and numpy."""
    resampling = Image.Resampling[steps.interpolation.upper()]
    picture = Image.fromarray(pixels_HWC)
    sides = [steps.size, steps.size]
    if steps.fit == "crop":
        side = round(min(picture.size) * steps.crop)
        left, top = ((length - side) // 2 for length in picture.size)
        picture = picture.crop((left, top, left + side, top + side))
    elif steps.fit == "pad":
        sides = [max(1, round(length * steps.size / max(picture.size))) for length in picture.size]
    fitted = Image.new("RGB", (steps.size, steps.size))
    fitted.paste(picture.resize(sides, resampling), tuple((steps.size - side) // 2 for side in sides))
    grey_HWC = np.asarray(fitted.convert("L"))[..., None]
    image_HWC = (grey_HWC if steps.grey else np.asarray(fitted)) / 255
    image_CHW = ((image_HWC - steps.mean) / steps.std).transpose(2, 0, 1)
    if steps.size != steps.input_size:
        larger = (steps.input_size, steps.input_size)
        channels = [Image.fromarray(channel.astype(np.float32)) for channel in image_CHW]
        image_CHW = np.stack([np.asarray(channel.resize(larger, resampling)) for channel in channels])
    return image_CHW if len(image_CHW) == steps.input_channels else image_CHW.repeat(steps.input_channels, axis=0)


@pytest.mark.parametrize("interpolation", FILTERS)
@pytest.mark.parametrize("fit", ["crop", "pad", "squash"])
@pytest.mark.parametrize("sides", [(1, 1), (1, 300), (3, 2), (31, 33), (500, 299)])
def test_matrix_crops_and_resizes_as_a_view(sides: tuple[int, int], fit: str, interpolation: str) -> None:
    pixels_HW = np.random.default_rng(0).integers(0, 256, sides, dtype=np.uint8)
    view = View(24, random_crop=False, fit=fit, centre_share=0.875, interpolation=interpolation)
    top, left, rows, columns = view.box(*sides, None)
    window_1CHW = torch.from_numpy(pixels_HW[top : top + rows, left : left + columns].copy()).expand(1, 3, -1, -1)
    expected_HW = view.resized(window_1CHW)[0, 0].double()
    matrices = [
        side_matrix(*lengths, 24, fit=fit, crop=0.875, weigh=FILTERS[interpolation]) for lengths in (sides, sides[::-1])
    ]
    found_HW = (matrices[0] @ torch.from_numpy(pixels_HW).float() @ matrices[1].T).clamp(0, 255)
    limit = 1.1 if interpolation == "bilinear" else 20  # between the passes, what overshoots is cut
    assert (found_HW - expected_HW).abs().max() < limit


def test_values_are_those_of_the_run() -> None:
    steps = preprocessing_of(run_model(size=24, fit="crop", eval_crop=0.9))
    assert steps == Preprocessing(
        fit="crop",
        crop=0.9,
        size=24,
        interpolation="bilinear",
        grey=False,
        mean=(0.3, 0.4, 0.5),
        std=(0.2, 0.3, 0.25),
        input_size=24,
        input_channels=3,
    )
