"""Predicts the classes of pictures with the model of a run.

Shape suffixes: B pictures of a batch, N pictures, K classes, T classes that are named.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed import ProcessGroup

from accel_train.config.options import PredictConfig
from accel_train.data.images.endings import is_picture
from accel_train.data.loader import batches
from accel_train.data.sampler import PADDING
from accel_train.data.sources.inputs import Inputs, find_pictures
from accel_train.data.sources.unlabelled import UNREADABLE, UnlabelledSource
from accel_train.data.worker_batches import Batch
from accel_train.distributed import process_group
from accel_train.distributed.accelerator import Processes, stop
from accel_train.distributed.launcher import check_processes
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.metrics.predicted_classes import PredictedClasses
from accel_train.metrics.predictions import Indices, Probabilities
from accel_train.run.inference import RunModel, StoredRun, inference_loader, on_device, open_run, start_inference
from accel_train.system.atomic_files import STDOUT
from accel_train.training.loss import split_outputs
from accel_train.training.torch_settings import restored_torch_options

Show = Callable[[int, int], None]
"""Called with the number of pictures done, and of all."""
_NOT_FINITE = 2
"""State of a picture whose logits are not finite; see also UNREADABLE and READABLE."""


@dataclass(frozen=True)
class Predicted:
    """What the model of a run predicts for pictures."""

    weights: str
    """last or best."""
    notes: tuple[str, ...]
    table: PredictedClasses


@restored_torch_options()
def predict(
    folder: Path, paths: Sequence[str], config: PredictConfig, *, read_list: Callable[[], bytes], show: Show
) -> Predicted:
    """Collective: predict the classes of the pictures that paths lead to, as rank 0 sees them.

    `read_list` returns what is listed on stdin; `show` is called on rank 0 only.

    Raises:
        UserError: the folder is no run's, its model takes no pictures, the paths lead to none, or one is the CSV file.
    """
    check_processes(config.processes)
    run = open_run(folder, config.model)
    _check(run, config)
    try:
        processes = start_inference(config, config.precision or run.config.precision)
        found = processes.on_main(lambda: _find(paths, read_list, config.csv if config.csv != STDOUT else None))
        model = run.load(config.weights)
        source = UnlabelledSource(found.pictures, run.description.data_channels, run.description.data_size)
        table = _table(model, source, config, processes, show)
    finally:
        stop()
    return Predicted(model.weights, (*model.notes, *found.notes, *_normalisation_note(run)), table)


def _check(run: StoredRun, config: PredictConfig) -> None:
    channels, classes = run.description.data_channels, len(run.description.classes)
    if channels not in (1, 3):
        raise UserError(
            f"the images of {run.folder} have {quantity(channels, 'channel')}, pictures have 1 or 3",
            "evaluate it on data of its own kind: accel_train evaluate RUN --data my.module:function",
        )
    if config.top_k > classes:
        raise UserError(
            f"--top-k {config.top_k}: {run.folder} has {quantity(classes, 'class', 'classes')}",
            f"use --top-k {classes} or less",
        )


def _find(paths: Sequence[str], read_list: Callable[[], bytes], csv: Path | None) -> Inputs:
    """Return the pictures; refuse to replace one: after `--csv` the shell makes names of pictures of a pattern."""
    if csv and is_picture(csv.name):
        raise UserError(f"--csv {csv} has the ending of a picture", "end its name with .csv")
    found = find_pictures(paths, read_list)
    if csv and any(Path(picture.path).name == csv.name and _is_same(picture.path, csv) for picture in found.pictures):
        raise UserError(f"--csv {csv} is one of the pictures", "give another --csv")
    return found


def _is_same(picture: str, csv: Path) -> bool:
    return Path(picture).parent.resolve() == csv.parent.resolve()


def _normalisation_note(run: StoredRun) -> list[str]:
    """Note that pictures may be other images than those of the run: code of the user's normalised them."""
    description = run.description
    if any(description.mean) or set(description.std) != {1.0}:
        return []
    return [f"{run.config.data} has normalised the images of {run.folder} itself: pictures are only scaled to 0–1"]


def _table(
    model: RunModel, source: UnlabelledSource, config: PredictConfig, processes: Processes, show: Show
) -> PredictedClasses:
    """Collective: return the predictions for all pictures of a source, on every process."""
    view = replace(model.picture_view, most_pixels=config.max_pixels or model.config.max_pixels)
    batch_size = _batch_size(len(source), config.batch_size or model.config.batch_size)
    loader = inference_loader(source, view, processes, batch_size=batch_size, workers=config.workers)
    module, transform = on_device(model.module, processes), model.transform(processes.dtype, processes.device)
    rows = _Rows(config.top_k)
    show(0, len(source))
    with torch.no_grad():
        for number, batch in enumerate(batches(loader), start=1):
            rows.add(split_outputs(module(transform(batch.images_BCHW)))[0], batch)
            show(min(number * batch_size * processes.count, len(source)), len(source))
    own = {image_id: source.problem(image_id, view) for image_id in rows.ids_of(UNREADABLE)}
    own |= dict.fromkeys(rows.ids_of(_NOT_FINITE), "the output of the model is not finite")
    texts = process_group.exchange_texts(processes.group, json.dumps(list(own.items())))
    best_NT, probabilities_NT = rows.gathered(processes.group)
    return PredictedClasses(
        classes=model.classes,
        images=tuple(picture.name for picture in source.pictures),
        best_NT=best_NT,
        probabilities_NT=probabilities_NT,
        problems=dict(sorted((image_id, reason) for text in texts for image_id, reason in json.loads(text))),
        threshold=config.threshold or 0.0,
    )


class _Rows:
    """The predictions of this process, a row a picture; they stay on the device until they are needed."""

    def __init__(self, top_k: int) -> None:
        self._top_k = top_k
        self._integers: list[Tensor] = []
        """Of each batch: ids, states and the most probable classes, shape (2 + T, B)."""
        self._probabilities: list[Tensor] = []
        """Of each batch: those of these classes, shape (T, B)."""

    def add(self, logits_BK: Tensor, batch: Batch) -> None:
        """Add a batch whose labels are the states of its pictures."""
        finite_B = logits_BK.isfinite().all(dim=1)
        states_B = batch.labels_B.where(finite_B | (batch.labels_B == UNREADABLE), _NOT_FINITE)
        sorted_BK = logits_BK.softmax(dim=1).sort(dim=1, descending=True, stable=True)
        best_BT, shares_BT = sorted_BK.indices[:, : self._top_k], sorted_BK.values[:, : self._top_k]
        self._integers.append(torch.cat((torch.stack((batch.sample_indices_B, states_B)), best_BT.T)))
        self._probabilities.append(shares_BT.T.float())

    def ids_of(self, state: int) -> list[int]:
        """Return the ids of the pictures in a state."""
        ids_N, states_N = torch.cat(self._integers, dim=1)[:2]
        found: list[int] = ids_N[(states_N == state) & (ids_N != PADDING)].tolist()
        return found

    def gathered(self, group: ProcessGroup | None) -> tuple[Indices, Probabilities]:
        """Collective: return the classes and probabilities of all processes in the order of the pictures."""
        integers_XN, shares_TN = (
            torch.cat(process_group.exchange_equal(group, torch.cat(own, dim=1).cpu()), dim=1)
            for own in (self._integers, self._probabilities)
        )
        counted_N = (integers_XN[0] != PADDING).nonzero()[:, 0]
        order_N = counted_N[integers_XN[0, counted_N].argsort()]
        return integers_XN[2:, order_N].T.numpy(), shares_TN[:, order_N].T.numpy()


def _batch_size(pictures: int, most: int) -> int:
    """Return the batch size by which pictures fill their batches best: one picture needs no batch of 64."""
    return math.ceil(pictures / math.ceil(pictures / most))
