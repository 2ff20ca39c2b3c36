"""Evaluates the model of a run."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.checkpoints.checkpointer import load_weights
from accel_train.checkpoints.run_folder import CONFIG, DESCRIPTION, WEIGHTS, Description, read_description
from accel_train.config.defaults import Augmentation
from accel_train.config.fields import expand_home
from accel_train.config.import_string import is_function_name, trusted
from accel_train.config.load import read_config
from accel_train.config.options import EvaluateConfig, ResolvedConfig
from accel_train.data.contents import Contents, split_contents
from accel_train.data.images.view import View
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader
from accel_train.data.open import data_notes
from accel_train.data.sources.base import Source
from accel_train.data.transforms import ImageTransform
from accel_train.distributed.accelerator import Processes, start, stop
from accel_train.distributed.environment import share_of_cores
from accel_train.distributed.launcher import check_processes
from accel_train.errors import UserError
from accel_train.events import Evaluated
from accel_train.models.build import build_model
from accel_train.models.size_limit import values_at_most
from accel_train.models.timm_models import HUB
from accel_train.run.evaluation_data import open_evaluation_data
from accel_train.run.images import view_of
from accel_train.run.resume_point import decisive_options
from accel_train.run.same_data import refuse_other_ranks
from accel_train.run.weights import weights_to_evaluate
from accel_train.training import evaluate as evaluation
from accel_train.training.metrics import Means
from accel_train.training.torch_settings import keep_freed_memory, restored_torch_options, set_torch_options


@restored_torch_options()
def evaluate(folder: Path, config: EvaluateConfig) -> Evaluated:
    """Collective: return loss, top-1 and top-5 accuracy of a run's model over all images.

    Raises:
        UserError: the folder is no run's, or the data do not fit its model.
    """
    check_processes(config.processes)
    folder = expand_home(folder)
    description = read_description(folder)
    trained_by = read_config(folder / CONFIG, ResolvedConfig)
    name = _trusted_model(description.model, config.model, folder)
    found = open_evaluation_data(config, trained_by, description, folder)
    contents = Contents(description.classes, {config.split: split_contents(found.source)})
    chosen, weights_notes = weights_to_evaluate(folder, config.weights)
    weights = load_weights(folder / WEIGHTS[chosen])
    data = config.data or trained_by.data
    try:
        processes = _start(config, trained_by.precision)
        refuse_other_ranks(processes, contents, **{config.split: found.source})
        view = view_of(trained_by, description.image_size, description.interpolation)
        loader = _loader(config, config.batch_size or trained_by.batch_size, found.source, view, processes)
        model = _model(name, description, weights, processes, folder)
        result = _result(model, loader, description, processes)
        notes = processes.on_main(lambda: data_notes(data))
    finally:
        stop()
    assert result.balanced_accuracy is not None
    return Evaluated(
        run_folder=str(folder),
        weights=chosen,
        data=data,
        split=config.split,
        images=result.images,
        classes=len(description.classes),
        loss=result.loss,
        accuracy=result.accuracy,
        balanced_accuracy=result.balanced_accuracy,
        top5=result.top5,
        notes=(*weights_notes, *found.notes, *notes),
    )


def _trusted_model(stored: str, asked: str | None, run: Path) -> str:
    name = trusted(stored, asked, "--model", run)
    if name.startswith(HUB):  # a run stores the model that a repository has named
        raise UserError(f"{run} names a repository of the hub: {name}", "give a folder that accel_train has written")
    return name


def _result(model: nn.Module, loader: Any, description: Description, processes: Processes) -> Means:
    """Collective: evaluate a model over all images."""
    transform = _transform(description, processes)
    result = evaluation.evaluate(processes.accelerator, model, loader, transform, len(description.classes))
    assert result
    return result


def _start(config: EvaluateConfig, precision: str) -> Processes:
    """Collective: set torch's options and form the process group."""
    set_torch_options(config.threads, exact=False)
    keep_freed_memory()
    return start(
        device=config.device,
        backend=config.backend,
        precision=config.precision or precision,
        timeout=config.timeout,
        strategy="ddp",  # whatever the launcher says: nothing is trained
        common=decisive_options(config),
    )


def _loader(config: EvaluateConfig, batch_size: int, source: Source, view: View, processes: Processes) -> Any:
    """Return a prepared loader."""
    on_cpu, on_gpu = processes.device.type == "cpu", processes.device.type == "cuda"
    count = choose_workers(config.workers, source, cores=share_of_cores(), on_cpu=on_cpu)
    sizes = LoaderSizes(batch_size, processes.count, count, pin_memory=count > 0 and on_gpu)
    return processes.accelerator.prepare(evaluation_loader(source, view, sizes))


def _model(
    name: str, description: Description, weights: dict[str, Tensor], processes: Processes, run: Path
) -> nn.Module:
    """Collective: build the model of a run, with its weights.

    Raises:
        UserError: the weights are of another model.
    """
    build = partial(
        build_model,
        name,
        classes=len(description.classes),
        channels=description.data_channels,
        data_size=description.data_size,
        image_size=description.image_size,
        adapted_to=description.adapted_to,
    )
    model = build().module if is_function_name(name) else None
    try:
        if model is None:  # not the user's own code: the name may be anybody's
            with values_at_most(2 * sum(weight.numel() for weight in weights.values())):  # layers may be replaced
                model = build().module
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(
            f"the weights in {run} are not those of its {DESCRIPTION}: {' '.join(str(error).split())}",
            "give the folder of another run",
        ) from None
    model = model.to(processes.dtype).to(memory_format=torch.channels_last)
    prepared: nn.Module = processes.accelerator.prepare_model(model, evaluation_mode=True)
    return prepared


def _transform(description: Description, processes: Processes) -> ImageTransform:
    return ImageTransform(
        seed=0,
        augmentation=Augmentation(),
        channels=description.channels,
        size=description.image_size,
        mean=description.mean,
        std=description.std,
        interpolation=description.interpolation,
        dtype=processes.dtype,
        device=processes.device,
    )
