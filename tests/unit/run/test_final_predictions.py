"""predictions.csv of a finished run: whatever fails there is a sentence, no exception."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from accel_train.data.sampler import PADDING
from accel_train.data.sources.memory import MemorySource
from accel_train.data.worker_batches import Batch
from accel_train.errors import LocalError
from accel_train.metrics.predictions import read_predictions
from accel_train.run.final_predictions import remove_earlier, write_final_predictions

CLASSES = ("ape", "bee")
IMAGES_NCHW = torch.tensor([[2.0, 1.0], [0.0, 1.0], [5.0, 6.0]]).view(3, 2, 1, 1)
LABELS_N = torch.tensor([0, 0, 1])


class Loader:
    """Two batches of two images; the numbers in `broken` fail."""

    def __init__(self, broken: tuple[int, ...] = (), error: Exception | None = None) -> None:
        self.broken, self.error = broken, error

    def __len__(self) -> int:
        return 2

    def __iter__(self) -> Iterator[Batch | LocalError]:
        for number, ids in enumerate(([0, 1], [2, PADDING])):
            ids_B = torch.tensor(ids)
            if number in self.broken and self.error:
                raise self.error
            broken = number in self.broken
            batch = Batch(IMAGES_NCHW[ids_B.clamp(min=0)], LABELS_N[ids_B.clamp(min=0)], ids_B)
            yield LocalError("cannot read x.png: gone", "repair it") if broken else batch


class Model(nn.Module):
    """The images are the logits; counts its calls."""

    calls = 0

    def forward(self, images_BCHW: Tensor) -> Tensor:
        self.calls += 1
        return images_BCHW.flatten(1)


def finished_run(folder: Path, loader: Any, tick: Callable[[], None] = lambda: None) -> Any:
    accelerator = SimpleNamespace(device=torch.device("cpu"), reduce=lambda tensor, how: tensor)
    validation = SimpleNamespace(
        accelerator=accelerator, model=Model(), loader=loader, transform=lambda images: images, classes=2
    )
    return SimpleNamespace(
        resume_point=SimpleNamespace(folder=folder),
        training=SimpleNamespace(validation=validation, updater=SimpleNamespace(ema=None)),
        processes=SimpleNamespace(group=None, is_main=True),
        data=SimpleNamespace(val=MemorySource(CLASSES, IMAGES_NCHW, LABELS_N)),
        contents=SimpleNamespace(classes=CLASSES),
        watchdog=SimpleNamespace(tick=tick),
    )


def test_each_image_has_a_row(tmp_path: Path) -> None:
    ticks: list[int] = []
    assert write_final_predictions(finished_run(tmp_path, Loader(), lambda: ticks.append(1))) is None
    found = read_predictions(tmp_path / "predictions.csv", CLASSES)
    assert found.images == ("0", "1", "2")
    np.testing.assert_array_equal(found.predicted_N, [0, 1, 1])
    np.testing.assert_array_equal(found.label_ranks_N, [1, 2, 1])
    assert len(ticks) == 2


BY_HAND = "`accel_train evaluate {folder} --predictions {folder}/predictions.csv` writes it"


@pytest.mark.parametrize(
    ("loader", "reason", "calls"),
    [
        (Loader((1,)), "cannot read x.png: gone", 2),
        (Loader((0, 1)), "cannot read x.png: gone", 0),
        (Loader((1,), RuntimeError("a worker\nwas killed")), "a worker was killed", 2),
        (Loader((1,), OSError()), "OSError", 2),
    ],
)
def test_unreadable_images_are_reported_after_all_forward_passes(
    tmp_path: Path, loader: Loader, reason: str, calls: int
) -> None:
    run = finished_run(tmp_path, loader)
    expected = f"predictions.csv was not written: {reason}; {BY_HAND.format(folder=tmp_path)}"
    assert write_final_predictions(run) == expected
    assert run.training.validation.model.calls == calls
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    problem = write_final_predictions(finished_run(tmp_path / "gone", Loader()))
    assert problem is not None
    assert problem.startswith("predictions.csv was not written: No such file or directory: ")


def test_model_that_fails_is_reported(tmp_path: Path) -> None:
    run = finished_run(tmp_path, Loader())
    run.training.validation.model = nn.Linear(3, 2)
    problem = write_final_predictions(run)
    assert problem is not None
    assert "mat1 and mat2 shapes cannot be multiplied" in problem


def test_earlier_predictions_are_removed(tmp_path: Path) -> None:
    (tmp_path / "predictions.csv").write_text("of other weights")
    remove_earlier(tmp_path)
    remove_earlier(tmp_path)
    assert list(tmp_path.iterdir()) == []
