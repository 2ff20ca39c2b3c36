"""The model of a run as one graph, without Python code.

Shape suffixes: B images, C channels, H height, W width, K classes.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from accel_train.errors import UserError
from accel_train.export.preprocessing import Preprocessing, preprocessing_of
from accel_train.run.inference import RunModel
from accel_train.training.loss import split_outputs

IMAGES, PICTURES = "images", "pictures"
"""Names of inputs: normalised images, or pictures of any size."""
_EXAMPLE_BATCH = 2
"""With one image, the number 1 would be taken for a constant."""
_EXAMPLE_SIDES = (45, 67)
"""Height and width of the pictures with which the operations are recorded; the graph takes any size."""


@dataclass(frozen=True)
class Graph:
    """A module to export, and what it takes and returns."""

    module: nn.Module
    input_name: str
    example: Tensor
    dimensions: tuple[str | int, ...]
    """Of the input: a name if it may have any length."""
    output_name: str
    classes: int

    @property
    def batch_size(self) -> int | None:
        """The only one, None for any."""
        return None if isinstance(self.dimensions[0], str) else self.dimensions[0]

    @property
    def dynamic(self) -> dict[int, str]:
        """The dimensions that may have any length, by their position."""
        return {position: name for position, name in enumerate(self.dimensions) if isinstance(name, str)}

    def record(self) -> dict[str, dict[str, Any]]:
        """Return what a program must know to call the graph."""
        return {
            "input": {
                "name": self.input_name,
                "dtype": str(self.example.dtype).removeprefix("torch."),
                "shape": list(self.dimensions),
            },
            "output": {"name": self.output_name, "dtype": "float32", "shape": [self.dimensions[0], self.classes]},
        }

    def program(self) -> ExportedProgram:
        """Record the operations of the module.

        Raises:
            UserError: they depend on values of the images, or on their number.
        """
        shapes = ({position: Dim(name, min=1) for position, name in self.dynamic.items()},)
        try:
            with torch.no_grad():
                program = torch.export.export(self.module, (self.example,), dynamic_shapes=shapes)
        except Exception as error:  # any operation may refuse to be recorded, with any type
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            fixed = "--batch-size 1, if the model is made for one number of images"
            raise UserError(f"this model cannot be exported as a graph: {reason}", f"try {fixed}") from error
        for node in program.graph.nodes:
            node.meta.pop("stack_trace", None)  # it names files of this machine
        return program


def graph_of(run: RunModel, *, with_preprocessing: bool, half: bool, batch_size: int | None) -> Graph:
    """Return the graph from normalised images to logits, or from pictures to probabilities."""
    batch: str | int = batch_size or "batch"
    example = batch_size or _EXAMPLE_BATCH
    dtype = torch.float16 if half else torch.float32
    model = _FromImages(deepcopy(run.module).to(dtype), dtype)
    description = run.description
    classes = len(description.classes)
    if with_preprocessing:
        pictures_BHWC = torch.zeros(example, *_EXAMPLE_SIDES, 3, dtype=torch.uint8)
        module = _FromPictures(preprocessing_of(run), model)
        return Graph(module, PICTURES, pictures_BHWC, (batch, "height", "width", 3), "probabilities", classes)
    shape = (description.channels, description.image_size, description.image_size)
    return Graph(model, IMAGES, torch.zeros(example, *shape), (batch, *shape), "logits", classes)


class _FromImages(nn.Module):
    """From fp32 to fp32, whatever the precision of the model."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model = model.requires_grad_(False)
        self.dtype = dtype

    def forward(self, images_BCHW: Tensor) -> Tensor:
        return split_outputs(self.model(images_BCHW.to(self.dtype)))[0].to(torch.float32)


class _FromPictures(nn.Module):
    def __init__(self, preprocessing: Preprocessing, model: nn.Module) -> None:
        super().__init__()
        self.preprocessing = preprocessing
        self.model = model

    def forward(self, pictures_BHWC: Tensor) -> Tensor:
        logits_BK: Tensor = self.model(self.preprocessing.image(pictures_BHWC))
        return logits_BK.softmax(dim=1)
