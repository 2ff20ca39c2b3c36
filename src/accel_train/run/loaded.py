"""A run's model for use in a program: the model, its classes and its preprocessing.

Shape suffixes: C channels, H height, W width.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from accel_train.data.images.decode import decode_window, upright
from accel_train.data.images.pillow import orientation_of
from accel_train.data.images.samples import as_rgb
from accel_train.data.images.view import View
from accel_train.data.sources.unlabelled import as_grey
from accel_train.data.sources.zip_members import MOST_BYTES
from accel_train.data.transforms import ImageTransform
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.run.inference import RunModel, open_run
from accel_train.system.regular_files import read_regular

Picture = str | Path | bytes | Image.Image | NDArray[np.uint8]
"""A file, its bytes, a picture of Pillow, or uint8 pixels: height × width × 3, or height × width if grey."""


@dataclass(frozen=True)
class LoadedRun:
    """A model, and how to use it."""

    model: nn.Module
    """From images to logits; in evaluation mode, on the CPU, in fp32."""
    classes: tuple[str, ...]
    """In the order of the logits."""
    preprocess: Callable[[Picture], Tensor]
    """Makes of one picture the image_CHW that the model takes, as `accel_train predict` does."""


def load(folder: Path, *, weights: str | None = None, model: str | None = None) -> LoadedRun:
    """Load the model of a run.

    Raises:
        UserError: the folder is no run's, has no such weights, or names code that the user has not.
    """
    return loaded(open_run(folder, model).load(weights))


def loaded(run: RunModel) -> LoadedRun:
    """Return the model of a run with its preprocessing."""
    channels = run.description.data_channels
    if channels not in (1, 3):
        preprocess: Callable[[Picture], Tensor] = partial(_refuse, run.folder, channels)
    else:
        transform = run.transform(torch.float32, torch.device("cpu"))
        preprocess = partial(_image, run.picture_view, channels, transform)
    return LoadedRun(run.module, run.classes, preprocess)


def _refuse(run: Path, channels: int, picture: Picture) -> Tensor:
    raise UserError(
        f"the images of {run} have {quantity(channels, 'channel')}, pictures have 1 or 3",
        "prepare them as its own data were",
    )


def _image(view: View, channels: int, transform: ImageTransform, picture: Picture) -> Tensor:
    """Crop, resize and normalise a picture.

    Raises:
        UserError: it cannot be read.
    """
    window_HWC = torch.from_numpy(_window(picture, view))
    image_1CHW = view.resized(window_HWC[None].permute(0, 3, 1, 2))
    return transform(image_1CHW if channels == 3 else as_grey(image_1CHW))[0]


def _window(picture: Picture, view: View) -> NDArray[np.uint8]:
    """Return the pixels_HWC that the view selects."""
    name, box = "the picture", partial(view.box, key=None)
    try:
        if isinstance(picture, str | Path):
            name = f"the picture {picture}"
            picture = read_regular(Path(picture), MOST_BYTES)
        if isinstance(picture, bytes):
            return decode_window(picture, box, None, view.most_pixels)
        if isinstance(picture, Image.Image):
            picture = upright(np.asarray(as_rgb(picture)), orientation_of(picture))
    except Exception as error:  # damaged bytes make decoders raise any type
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"cannot read {name}: {reason}", "repair it, or leave it out") from None
    if picture.dtype != np.uint8 or picture.shape[2:] not in ((), (3,)) or 0 in picture.shape:
        raise UserError(
            f"pixels of type {picture.dtype} and shape {picture.shape} are no picture",
            "give uint8 pixels: height × width × 3, or height × width if grey",
        )
    pixels_HWC = picture if picture.ndim == 3 else np.repeat(picture[..., None], 3, axis=2)
    top, left, rows, columns = box(*pixels_HWC.shape[:2])
    return pixels_HWC[top : top + rows, left : left + columns].copy()
