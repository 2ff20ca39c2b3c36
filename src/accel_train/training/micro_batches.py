"""From batches of the training loader to micro-batches as the model takes them.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accel_train.data.loader import batches
from accel_train.data.sampler import UpdateSampler
from accel_train.data.transforms import Transform
from accel_train.data.worker_batches import Batch
from accel_train.training.timing import Timing


@dataclass(frozen=True)
class TrainBatches:
    """The training batches of all epochs, from a loader that Accelerate has prepared."""

    loader: Any
    sampler: UpdateSampler
    transform: Transform
    batch_size: int

    def micro_batches(self, first_update: int, timing: Timing) -> Iterator[Batch]:
        """Yield this process's micro-batches, transformed, from an update on; one read may hold several."""
        self.sampler.first_update = first_update
        for read in timing.waiting_for(batches(self.loader)):
            images_BCHW = self.transform(read.images_BCHW, read.sample_indices_B)
            count = len(images_BCHW) // self.batch_size
            parts = (tensor.chunk(count) for tensor in (images_BCHW, read.labels_B, read.sample_indices_B))
            for images_part_BCHW, *rest in zip(*parts, strict=True):
                yield Batch(images_part_BCHW.detach(), *rest)  # detached: a model may write into its images
