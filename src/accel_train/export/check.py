"""Compares an export with the model of the run, on images of the run.

Shape suffixes: N images, K classes, C channels, H height, W width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.config.export_panel import ExportConfig
from accel_train.config.options import EvaluateConfig
from accel_train.data.images.crops import Box
from accel_train.data.images.decode import decode_window
from accel_train.data.sources.base import Source, Subset, spread
from accel_train.data.sources.encoded_images import TableSource
from accel_train.data.sources.picture_files import FolderSource
from accel_train.errors import UserError
from accel_train.export import onnx_file, torch_export_file
from accel_train.export.graph import PICTURES, Graph
from accel_train.run.evaluation_data import open_evaluation_data
from accel_train.run.inference import RunModel
from accel_train.run.loaded import loaded
from accel_train.training.loss import split_outputs

Array = NDArray[Any]
_MOST_IMAGES = 64
_TOLERANCES = {"logits": 1e-4, "probabilities": 1e-3}
"""Of logits as a fraction of the largest one, if that is above 1."""
_HALF_TOLERANCE = 2e-2


@dataclass(frozen=True)
class Compared:
    """How far an export is from the model of its run."""

    images: int
    quantity: str
    """What was compared: logits or probabilities."""
    difference: float
    """The largest."""
    tolerated: float
    other_classes: int
    """Images with another most probable class."""
    program: str
    """What has run the export, with its version."""

    @property
    def agrees(self) -> bool:
        return self.difference <= self.tolerated  # not if it is NaN


def open_images(config: ExportConfig, run: RunModel) -> Source:
    """Open images to compare on: those the run was validated on, or others with the same classes.

    Raises:
        UserError: there are none.
    """
    asked = EvaluateConfig(data=config.data, data_dir=config.data_dir)
    return spread(open_evaluation_data(asked, run.config, run.description, run.folder).source, _MOST_IMAGES)


def _runner(path: Path, graph: Graph) -> tuple[Callable[[Array], Array], str]:
    """Return what runs an export on a batch, and the name of its program."""
    if path.name == torch_export_file.NAME:
        module = torch.export.load(path).module()
        return lambda batch: module(torch.from_numpy(batch)).numpy(), f"torch {torch.__version__}"
    session, program = onnx_file.run_onnx(path)
    return lambda batch: session.run(None, {graph.input_name: batch})[0], program


def compare(path: Path, graph: Graph, run: RunModel, source: Source, *, half: bool) -> Compared:
    """Run an export and the model of the run, in fp32, on the same images.

    Raises:
        UserError: an image cannot be read, or is no picture, which the export takes.
    """
    call, program = _runner(path, graph)
    takes_pictures = graph.input_name == PICTURES
    pairs = _pictures(run, source) if takes_pictures else _images(run, source)
    found, expected = [], []
    with torch.no_grad():
        for given, image_CHW in pairs:
            logits_1K = split_outputs(run.module(image_CHW[None]))[0]
            expected.append((logits_1K.softmax(dim=1) if takes_pictures else logits_1K).numpy()[0])
            found.append(call(np.stack([given] * (graph.batch_size or 1)))[0])
    found_NK, expected_NK = np.stack(found), np.stack(expected)
    relative = _HALF_TOLERANCE if half else _TOLERANCES[graph.output_name]
    return Compared(
        images=len(found),
        quantity=graph.output_name,
        difference=float(abs(found_NK - expected_NK).max()),
        tolerated=relative * max(1.0, float(abs(expected_NK).max())),
        other_classes=int((found_NK.argmax(axis=1) != expected_NK.argmax(axis=1)).sum()),
        program=program,
    )


def _images(run: RunModel, source: Source) -> Iterator[tuple[Array, Tensor]]:
    """Yield images as the model takes them: for the export, and for the model."""
    transform = run.transform(torch.float32, torch.device("cpu"))
    for image_id in range(len(source)):
        image_CHW = transform(source.read([image_id], None, run.view)[0])[0].contiguous()
        yield image_CHW.numpy(), image_CHW


def _pictures(run: RunModel, source: Source) -> Iterator[tuple[Array, Tensor]]:
    """Yield the pixels_HWC of a whole picture, and the image_CHW that `predict` makes of its file."""
    preprocess = loaded(run).preprocess
    for image_id in range(len(source)):
        if file := _encoded(source, image_id):
            yield decode_window(file, _whole, None, run.config.max_pixels), preprocess(file)
        else:
            pixels_HWC = _pixels(source.read([image_id], None, run.view)[0][0])
            yield pixels_HWC, preprocess(pixels_HWC)


def _whole(height: int, width: int) -> Box:
    return 0, 0, height, width


def _encoded(source: Source, image_id: int) -> bytes | None:
    """Return the bytes of a picture file, None if the source has decoded its images."""
    if isinstance(source, Subset):
        return _encoded(source.source, int(source.ids[image_id]))
    return source.encoded(image_id) if isinstance(source, FolderSource | TableSource) else None


def _pixels(image_CHW: Tensor) -> Array:
    """Return an image as a picture; grey is repeated."""
    if image_CHW.is_floating_point():
        raise UserError(
            "--check of --with-preprocessing needs pictures, but the images of the run's data are floats",
            "give a folder of pictures as --data, or leave out one of them",
        )
    return image_CHW.expand(3, -1, -1).permute(1, 2, 0).contiguous().numpy()
