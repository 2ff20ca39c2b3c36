"""The tracker tensorboard: event files in the run folder."""

from collections.abc import Mapping
from pathlib import Path

from accel_train.history.files import TENSORBOARD
from accel_train.trackers.base import Row, TrackedRun

_SHOWN_WITH_PARAMETERS = ("epoch/val_accuracy", "epoch/val_loss")
"""Curves whose last values the page of hyperparameters shows."""


class TensorBoard:
    """Writes event files; a resumed run writes them again, and tells a page that is open to forget the earlier ones."""

    def open(self, run: TrackedRun) -> Mapping[str, int]:
        from accelerate.tracking import TensorBoardTracker
        from torch.utils.tensorboard.summary import hparams

        folder = run.folder / TENSORBOARD
        for path in folder.glob("events.out.tfevents.*"):
            path.unlink()
        self._tracker = TensorBoardTracker(folder.name, folder.parent, purge_step=0)
        self._tracker.start()
        # Accelerate would write them to a folder of its own, which TensorBoard lists as another run.
        summaries = hparams(run.parameters, dict.fromkeys(_SHOWN_WITH_PARAMETERS, 0.0))  # type: ignore[no-untyped-call]
        for summary in summaries:
            self._tracker.writer.file_writer.add_summary(summary)
        return {}

    def log(self, row: Row) -> None:
        self._tracker.log(row.by_key, step=row.update, walltime=row.time)

    def add_pictures(self, pictures: Mapping[str, Path], update: int) -> None:
        import numpy as np
        from PIL import Image

        for name, path in pictures.items():
            with Image.open(path) as picture:
                pixels_1HWC = np.asarray(picture.convert("RGB"))[None]
            self._tracker.log_images({name: pixels_1HWC}, step=update, dataformats="NHWC")

    def close(self, *, complete: bool) -> None:
        self._tracker.finish()
