"""Evaluates the model of a run."""

from pathlib import Path

import numpy as np

from accel_train.config.options import EvaluateConfig
from accel_train.data.contents import Contents, split_contents
from accel_train.data.image_names import image_names
from accel_train.data.open import data_notes
from accel_train.data.sources.base import Source
from accel_train.distributed.accelerator import Processes, stop
from accel_train.distributed.launcher import check_processes
from accel_train.errors import UserError
from accel_train.events import ClassResult, Evaluated, ReliabilityBin
from accel_train.metrics.calibration import Reliability, reliability
from accel_train.metrics.classification import ClassScores, class_scores, confusion_matrix, wilson
from accel_train.metrics.predictions import Predictions, check_predictions_file, write_predictions
from accel_train.run.evaluation_data import open_evaluation_data
from accel_train.run.inference import RunModel, inference_loader, on_device, open_run, start_inference
from accel_train.run.same_data import refuse_other_ranks
from accel_train.system.os_errors import cannot_write
from accel_train.system.run_around import run_that_writes
from accel_train.training import evaluate as evaluation
from accel_train.training.metrics import TOP, Means
from accel_train.training.predictions import PredictionRows
from accel_train.training.torch_settings import restored_torch_options


@restored_torch_options()
def evaluate(folder: Path, config: EvaluateConfig) -> Evaluated:
    """Collective: return loss, top-1 and top-5 accuracy of a run's model over all images; write each prediction.

    Raises:
        UserError: the folder is no run's, the data do not fit its model, or the predictions cannot be written.
    """
    check_processes(config.processes)
    if config.predictions:
        check_predictions_file(config.predictions, "--predictions")
    run = open_run(folder, config.model)
    found = open_evaluation_data(config, run.config, run.description, run.folder)
    contents = Contents(run.description.classes, {config.split: split_contents(found.source)})
    data = config.data or run.config.data
    try:
        processes = start_inference(config, config.precision or run.config.precision)
        refuse_other_ranks(processes, contents, **{config.split: found.source})
        model = run.load(config.weights)
        _refuse_other_than_the_runs(config, model)
        result, predictions = _result(model, found.source, config, processes)
        processes.on_main(lambda: _write(predictions, config.predictions))
        notes = processes.on_main(lambda: data_notes(data))
    finally:
        stop()
    return _evaluated(
        model, result, predictions, data=data, split=config.split, notes=(*model.notes, *found.notes, *notes)
    )


def _result(model: RunModel, source: Source, config: EvaluateConfig, processes: Processes) -> tuple[Means, Predictions]:
    """Collective: evaluate a model over all images."""
    batch_size = config.batch_size or model.config.batch_size
    loader = inference_loader(source, model.view, processes, batch_size=batch_size, workers=config.workers)
    module, transform = on_device(model.module, processes), model.transform(processes.dtype, processes.device)
    rows = PredictionRows()
    result = evaluation.evaluate(processes.accelerator, module, loader, transform, len(model.classes), rows=rows)
    assert result
    return result, rows.gathered(processes.group, model.classes, image_names(source))


def _evaluated(
    model: RunModel, means: Means, predictions: Predictions, *, data: str, split: str, notes: tuple[str, ...]
) -> Evaluated:
    """Return all that is measured of predictions."""
    assert means.balanced_accuracy is not None
    classes, images = len(model.classes), len(predictions)
    confusion_KK = confusion_matrix(predictions.labels_N, predictions.predicted_N, classes)
    bins = reliability(predictions.confidences_N, predictions.correct_N)
    return Evaluated(
        run_folder=str(model.folder),
        weights=model.weights,
        data=data,
        split=split,
        images=images,
        classes=classes,
        loss=means.loss,
        accuracy=means.accuracy,
        accuracy_interval=wilson(int(predictions.correct_N.sum()), images),
        balanced_accuracy=means.balanced_accuracy,
        top5=means.top5,
        top5_interval=wilson(int((predictions.label_ranks_N <= TOP).sum()), images),
        ece=bins.ece,
        mean_confidence=float(predictions.confidences_N.mean(dtype=np.float64)),
        per_class=_class_results(model.classes, class_scores(confusion_KK)),
        confusion=tuple(map(tuple, confusion_KK.tolist())),
        reliability=_bins(bins),
        notes=notes,
    )


def _class_results(classes: tuple[str, ...], scores: ClassScores) -> tuple[ClassResult, ...]:
    columns = (
        *(counts_K.tolist() for counts_K in (scores.images_K, scores.predicted_K, scores.correct_K)),
        *(map(_defined, shares_K) for shares_K in (scores.precision_K, scores.recall_K, scores.f1_K)),
    )
    return tuple(ClassResult(*row) for row in zip(classes, *columns, strict=True))


def _bins(found: Reliability) -> tuple[ReliabilityBin, ...]:
    edges, images = found.edges.tolist(), found.images_M.tolist()
    means = (map(_defined, means_M) for means_M in (found.confidences_M, found.accuracies_M))
    return tuple(ReliabilityBin(*row) for row in zip(edges[:-1], edges[1:], images, *means, strict=True))


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _refuse_other_than_the_runs(config: EvaluateConfig, model: RunModel) -> None:
    """Check that a predictions.csv in a run folder, which `report` and `compare` read, is what the run itself writes.

    Raises:
        UserError: it is of another run, of other weights than the last or of another split.
    """
    path = config.predictions
    run = run_that_writes(path) if path else None
    if run is None:
        return
    of_another = f"--predictions {path} is for the validation images and the last weights of {run}"
    if not run.samefile(model.folder):
        raise UserError(f"{of_another}, not for those of {model.folder}", "give another --predictions")
    if model.weights != "last":
        raise UserError(f"{of_another}, not for its {model.weights} weights", "give another --predictions")
    if config.split != "val":
        raise UserError(f"{of_another}, not for --split {config.split}", "give another --predictions")


def _write(predictions: Predictions, path: Path | None) -> None:
    if path is None:
        return
    try:
        write_predictions(path, predictions)
    except OSError as error:
        raise cannot_write(path, "--predictions", error) from None
