"""How a picture becomes the input of an exported model: in numbers, and as operations of a graph.

Shape suffixes: B pictures, H height, W width, C channels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from accel_train.config.fields import Fit
from accel_train.data.sources.unlabelled import LUMA
from accel_train.export.resizing import FILTERS, side_matrix, whole
from accel_train.models.base import Interpolation
from accel_train.run.inference import RunModel


@dataclass(frozen=True)
class Preprocessing:
    """The steps from an upright picture of 8-bit RGB to the input of a model, in their order."""

    fit: Fit
    """crop: the central square; pad: the picture between black margins; squash: the picture, distorted."""
    crop: float
    """Side of the central square, as a fraction of the picture's shorter side."""
    size: int
    """Height and width to which the picture is resized, pixels."""
    interpolation: Interpolation
    """With antialiasing, first the width, then the height, each rounded to 8 bits."""
    grey: bool
    """Convert to one channel (ITU-R BT.601)."""
    mean: tuple[float, ...]
    """Of each channel, as a fraction of full white; likewise `std`. A single channel is repeated for more of them."""
    std: tuple[float, ...]
    input_size: int
    """Height and width of the model's input, to which the normalised image is resized, pixels."""
    input_channels: int
    """Of the model: a single channel is repeated."""

    def image(self, pictures_BHWC: Tensor) -> Tensor:
        """Return the input_BCHW of the model for uint8 pictures of one size, which may be symbolic."""
        image_BCHW = self._resized(pictures_BHWC.permute(0, 3, 1, 2).to(torch.float32))
        if self.grey:
            weights_1C11 = torch.tensor(LUMA, dtype=torch.float32).view(1, 3, 1, 1)
            image_BCHW = whole((image_BCHW * weights_1C11).sum(dim=1, keepdim=True) / sum(LUMA))
        mean_1C11, std_1C11 = (torch.tensor(values).view(1, -1, 1, 1) for values in (self.mean, self.std))
        image_BCHW = image_BCHW * (1 / (std_1C11 * 255)) - mean_1C11 / std_1C11
        if self.size != self.input_size:
            matrix_SL = side_matrix(
                self.size, self.size, self.input_size, fit="squash", crop=1, weigh=FILTERS[self.interpolation]
            )
            image_BCHW = matrix_SL @ image_BCHW @ matrix_SL.T
        return image_BCHW.expand(-1, self.input_channels, -1, -1)

    def _resized(self, image_BCHW: Tensor) -> Tensor:
        height, width = image_BCHW.shape[2:]
        columns_SL, rows_SL = (
            side_matrix(*sides, self.size, fit=self.fit, crop=self.crop, weigh=FILTERS[self.interpolation])
            for sides in ((width, height), (height, width))
        )
        return whole(rows_SL @ whole(image_BCHW @ columns_SL.T))


def preprocessing_of(run: RunModel) -> Preprocessing:
    """Return the preprocessing of the pictures that `accel_train predict` is given for a run."""
    view, description = run.picture_view, run.description
    return Preprocessing(
        fit=view.fit,
        crop=view.centre_share,
        size=view.size,
        interpolation=description.interpolation,
        grey=description.data_channels == 1,
        mean=description.mean,
        std=description.std,
        input_size=description.image_size,
        input_channels=description.channels,
    )
