"""The pictures of a report: images of the first update, and the worst mistakes.

They are read by this process alone, without the loaders of the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from accel_train.config.options import ResolvedConfig
from accel_train.data.image_names import image_names
from accel_train.data.loader import TrainReader
from accel_train.data.sampler import ImageOrder
from accel_train.data.sources.base import DataSet
from accel_train.errors import LocalError
from accel_train.metrics.predictions import Predictions, written_name
from accel_train.report.pictures import Mistake, Picture, Sample, picture
from accel_train.run.class_balance import balanced_draws
from accel_train.run.images import ModelInput, training_transform, view_of
from accel_train.run.preview import captions, model_pixels, rgb_pixels, stretched_pixels
from accel_train.training.loss import Targets
from accel_train.training.mixing import Mixing

_MOST_SAMPLES, _MOST_MISTAKES = 24, 24


@dataclass(frozen=True)
class Images:
    """The images of a run, and how its model takes them."""

    config: ResolvedConfig
    data: DataSet
    model: ModelInput

    def samples(self) -> list[Sample]:
        """Return the first images of the first update: augmented, and mixed if the run mixes images.

        Raises:
            LocalError: one cannot be read.
        """
        config, data = self.config, self.data
        mixing = Mixing(config.seed, config.mixup, config.cutmix, self.model.image_size)
        most = config.batch_size if mixing else min(config.batch_size, _MOST_SAMPLES)  # images are mixed in a batch
        order = ImageOrder(
            config.seed, len(data.train), config.repeated_augmentation, balanced_draws(config, data.train)
        )
        view = view_of(config, self.model.image_size, data.interpolation)
        read = TrainReader(data.train, view, config.seed).__getitems__(order.sample_indices(0)[:most])
        if isinstance(read, LocalError):
            raise read
        transform = training_transform(config, data, self.model, dtype=torch.float32, device=torch.device("cpu"))
        images_BCHW, targets = transform(read.images_BCHW.cpu(), read.sample_indices_B), Targets(read.labels_B)
        if mixing:
            mix = mixing.draw(0, 0, len(images_BCHW))
            images_BCHW, targets = mix.images(images_BCHW), mix.targets(read.labels_B)
        pixels_BHWC = model_pixels(images_BCHW, data, is_float=read.images_BCHW.is_floating_point())
        shown = zip(map(picture, pixels_BHWC), captions(targets, data.train.classes), strict=True)
        return [Sample(*each) for each in islice(shown, _MOST_SAMPLES)]

    def mistakes(self, predictions: Predictions) -> list[Mistake]:
        """Return the mistakes with the highest confidence, the highest first."""
        wrong = np.flatnonzero(~predictions.correct_N)
        rows = wrong[np.argsort(-predictions.confidences_N[wrong], kind="stable")][:_MOST_MISTAKES]
        return [
            _mistake(predictions, row, shown) for row, shown in zip(rows.tolist(), self._validation(rows), strict=True)
        ]

    def shows(self, predictions: Predictions) -> bool:
        """Return whether these are the images of the predictions."""
        return tuple(map(written_name, image_names(self.data.val))) == predictions.images

    def _validation(self, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Iterator[Picture | None]:
        """Yield validation images as they are read for the model; None for one that cannot be read."""
        view = view_of(self.config, self.model.image_size, self.data.interpolation)
        for row in rows:
            try:
                images_BCHW = self.data.val.read(np.array([row]), None, view)[0].cpu()
            except (LocalError, OSError):
                yield None
                continue
            is_float = images_BCHW.is_floating_point()
            pixels_BHWC = stretched_pixels(images_BCHW) if is_float else rgb_pixels(images_BCHW / 255)
            yield picture(pixels_BHWC[0])


def _mistake(predictions: Predictions, row: int, shown: Picture | None) -> Mistake:
    return Mistake(
        picture=shown,
        name=predictions.images[row],
        label=predictions.classes[predictions.labels_N[row]],
        predicted=predictions.classes[predictions.predicted_N[row]],
        confidence=float(predictions.confidences_N[row]),
        label_probability=float(predictions.label_probabilities_N[row]),
    )
