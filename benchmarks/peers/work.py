"""The work that every trainer does: the same images, model, optimizer and clock.

Shape suffixes: N images, C channels, H height, W width.
"""

import os
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset

from accel_train.data.open import open_data
from accel_train.data.sources.base import DataSet, Source, View
from accel_train.models.build import BuiltModel, build_model

LEARNING_RATE, WEIGHT_DECAY = 0.02, 5e-4
RANK = int(os.environ.get("RANK", "0"))


@dataclass(frozen=True)
class Work:
    """A setting in which trainers are compared."""

    batch_size: int
    """Images per process."""
    images: int
    """The first of the training data, each used once per epoch."""
    data: str = "fashion-mnist"
    model: str = "cnn"
    epochs: int = 1
    processes: int = 1
    precision: str = "fp32"
    device: str = "cpu"
    channels_last: bool = True
    """Memory format of the bare loop; other trainers keep their default."""
    compile: bool = False
    """Used by the bare loop and accel_train only."""

    @property
    def updates_per_epoch(self) -> int:
        return self.images // (self.batch_size * self.processes)

    def open(self) -> DataSet:
        return open_data(self.data, directory=None, val_fraction=None, seed=0, limit=None)

    def build(self, data: DataSet) -> BuiltModel:
        """Return the model on the CPU, identical on all processes."""
        channels, height, width = data.train.shape
        torch.manual_seed(0)
        return build_model(
            self.model,
            classes=len(data.train.classes),
            channels=channels,
            data_size=max(height, width),
            image_size=None,
        )

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device, torch.bfloat16, enabled=self.precision == "bf16")

    def distributed(self, model: nn.Module) -> nn.Module:
        """Collective: return the model on its device, in DDP if there are several processes."""
        model = model.to(self.device)
        if self.processes == 1:
            return model
        torch.distributed.init_process_group("gloo")
        return DistributedDataParallel(model)


class Clock:
    """Times the updates of the first epoch; trainers call :meth:`tick` after each update."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._updates = 0
        self._first = self._last = self._first_cpu = self._last_cpu = self._seconds_to_first_update = 0.0
        self._peak_bytes = 0

    def tick(self) -> None:
        self._updates += 1
        first, last = self._updates == 1, self._updates == self._work.updates_per_epoch
        if not (first or last):
            return
        if self._work.device == "cuda":
            torch.cuda.synchronize()
        if first:
            self._first, self._first_cpu = time.perf_counter(), time.process_time()
            self._seconds_to_first_update = time.time() - psutil.Process().create_time()
        if last:
            self._last, self._last_cpu = time.perf_counter(), time.process_time()
            self._peak_bytes = self._peak()

    def results(self) -> dict[str, float]:
        """Return images/s of all processes from the second update on, and this process's CPU time, memory and start."""
        images = (self._work.updates_per_epoch - 1) * self._work.batch_size * self._work.processes
        assert self._last, f"{self._updates} updates were made, not {self._work.updates_per_epoch}"
        return {
            "images_per_second": images / (self._last - self._first),
            "cpu_seconds_per_image": (self._last_cpu - self._first_cpu) / images,
            "seconds_to_first_update": self._seconds_to_first_update,
            "peak_bytes": self._peak_bytes,
        }

    def _peak(self) -> int:
        if self._work.device == "cuda":
            return torch.cuda.max_memory_allocated()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Pictures(Dataset[tuple[Any, int]]):
    """Images as torchvision's data sets return them: one PIL image at a time, through a transform."""

    def __init__(self, images_NCHW: Tensor, labels_N: Tensor, transform: Callable[[Image.Image], Any] | None) -> None:
        self._images_NHWC = images_NCHW.permute(0, 2, 3, 1)
        self._labels_N = labels_N.tolist()
        self.transform = transform

    def __len__(self) -> int:
        return len(self._labels_N)

    def __getitem__(self, image_id: int) -> tuple[Any, int]:
        image = Image.fromarray(self._images_NHWC[image_id].squeeze(-1).numpy())
        return (self.transform(image) if self.transform else image), self._labels_N[image_id]


def read(source: Source, ids: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return images at the size of the source, and labels."""
    return source.read(ids, None, View(max(source.shape[1:]), random_crop=False))


def pictures(work: Work, data: DataSet, transform: Callable[[Image.Image], Any] | None) -> Pictures:
    """Return the training images of the work."""
    ids = range(work.images)
    return Pictures(*read(data.train, ids), transform)


def usual_transform(data: DataSet) -> Callable[[Image.Image], Tensor]:
    """Return the transform that most programs use: to float, then normalised."""
    from torchvision import transforms

    made: Callable[[Image.Image], Tensor] = transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize(data.mean, data.std)]
    )
    return made


def optimizer_for(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=0.9, nesterov=True, weight_decay=WEIGHT_DECAY)


def cosine_for(optimizer: torch.optim.Optimizer, work: Work) -> torch.optim.lr_scheduler.LRScheduler:
    """Return the schedule that all trainers use; call its `step` after each update."""
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, work.epochs * work.updates_per_epoch)
