"""From batches of the training loader to micro-batches as the model takes them.

Shape suffixes: B images, C channels, H height, W width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple

from torch import Tensor

from accel_train.data.loader import batches
from accel_train.data.sampler import UpdateSampler
from accel_train.data.transforms import Transform
from accel_train.errors import UserError
from accel_train.training.loss import Targets
from accel_train.training.mixing import Mixing
from accel_train.training.timing import Timing


class MicroBatch(NamedTuple):
    """Images as the model takes them: augmented, normalised and mixed."""

    images_BCHW: Tensor
    targets: Targets
    sample_indices_B: Tensor


@dataclass(frozen=True)
class TrainBatches:
    """The training batches of all epochs, from a loader that Accelerate has prepared."""

    loader: Any
    sampler: UpdateSampler
    transform: Transform
    batch_size: int
    mixing: Mixing
    own: range
    """The indices of this process's micro-batches in an update."""
    per_update: int
    """Micro-batches that are read for an update: as many as any process has."""

    def __post_init__(self) -> None:
        if self.mixing and self.batch_size == 1:
            raise UserError(
                "--mixup and --cutmix mix images of a micro-batch, which has one image", "use --batch-size 2 or more"
            )

    def micro_batches(self, first_update: int, timing: Timing) -> Iterator[MicroBatch]:
        """Yield this process's micro-batches, transformed, from an update on; one read may hold several."""
        self.sampler.first_update = first_update
        numbers = count(first_update * self.per_update)
        for read in timing.waiting_for(batches(self.loader)):
            images_BCHW = self.transform(read.images_BCHW, read.sample_indices_B)
            micro_batches = len(images_BCHW) // self.batch_size
            parts = (t.chunk(micro_batches) for t in (images_BCHW, read.labels_B, read.sample_indices_B))
            for part_BCHW, labels_B, indices_B in zip(*parts, strict=True):
                detached_BCHW = part_BCHW.detach()  # a model may write into its images
                yield MicroBatch(*self._mixed(next(numbers), detached_BCHW, labels_B), indices_B)

    def _mixed(self, number: int, images_BCHW: Tensor, labels_B: Tensor) -> tuple[Tensor, Targets]:
        """Mix micro-batch `number` of this process, counted from the start of the run, if images are mixed."""
        if not self.mixing:
            return images_BCHW, Targets(labels_B)
        update, m = divmod(number, self.per_update)
        mix = self.mixing.draw(update, self.own[min(m, len(self.own) - 1)], self.batch_size)
        return mix.images(images_BCHW), mix.targets(labels_B)
