"""Evaluates the model of a run that has ended."""

from pathlib import Path

import torch

from accel_train.checkpoints.checkpointer import load_weights
from accel_train.checkpoints.run_folder import CONFIG, WEIGHTS, Description, read_description
from accel_train.config.defaults import Augmentation
from accel_train.config.load import make_config, read_yaml
from accel_train.config.options import EvaluateConfig, TrainConfig
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader
from accel_train.data.open import data_notes, open_data, open_for_evaluation
from accel_train.data.sources.base import Source
from accel_train.data.transforms import ImageTransform
from accel_train.distributed import accelerator as distributed
from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError
from accel_train.events import Evaluated
from accel_train.models.build import BuiltModel, build_model
from accel_train.training import loop as engine
from accel_train.training.torch_settings import tune


def evaluate_run(folder: Path, config: EvaluateConfig) -> Evaluated:
    """Collective: return loss, top-1 and top-5 accuracy of a run's model over all images.

    Raises:
        UserError: the folder is no run's, or the data do not fit its model.
    """
    description = read_description(folder)
    trained_by = make_config(TrainConfig, read_yaml(folder / CONFIG, set(TrainConfig.model_fields)), {})
    source = _open_source(config, trained_by, description, folder)
    weights = load_weights(folder / WEIGHTS[config.weights])
    tune(config.threads, exact=False)
    accelerator, precision = distributed.start(
        device=config.device,
        backend=config.backend,
        precision=config.precision or trained_by.precision,
        timeout=config.timeout,
        strategy="ddp",  # a launcher may say otherwise; there is nothing to train
    )
    dtype = distributed.DTYPES.get(precision, torch.float32)
    model = _build(description).module
    model.load_state_dict(weights)
    assert trained_by.batch_size
    kind = accelerator.device.type
    workers = choose_workers(config.workers, source, cores=share_of_cores(), on_cpu=kind == "cpu")
    sizes = LoaderSizes(
        batch_size=config.batch_size or trained_by.batch_size,
        processes=accelerator.num_processes,
        workers=workers,
        pin_memory=workers > 0 and kind == "cuda",
    )
    loader = evaluation_loader(source.at(description.image_size, random_crop=False), sizes)
    transform = ImageTransform(
        seed=0,
        augmentation=Augmentation(),
        channels=description.channels,
        size=description.image_size,
        mean=description.mean,
        std=description.std,
        dtype=dtype,
        device=accelerator.device,
    )
    prepared = accelerator.prepare_model(model.to(dtype).to(memory_format=torch.channels_last), evaluation_mode=True)
    found = engine.evaluate(accelerator, prepared, accelerator.prepare(loader), transform)
    assert found
    return Evaluated(
        run_folder=str(folder),
        weights=config.weights,
        data=config.data or trained_by.data,
        images=found.images,
        loss=found.loss,
        accuracy=found.accuracy,
        top5=found.top5,
        notes=distributed.on_main(accelerator, lambda: data_notes(config.data or trained_by.data)),
    )


def _open_source(config: EvaluateConfig, trained_by: TrainConfig, description: Description, run: Path) -> Source:
    """Open the validation images of the run's own data, or of other data with the same classes and channels."""
    if config.data is not None and Path(config.data).is_dir():
        source = open_for_evaluation(Path(config.data), description.classes, str(run))
    else:
        own = config.data is None
        source = open_data(
            config.data or trained_by.data,
            directory=config.data_dir or trained_by.data_dir,
            val_fraction=trained_by.val_fraction if own else None,
            seed=trained_by.seed,
            limit=trained_by.limit if own else None,
        ).val
    if tuple(source.classes) != description.classes:
        raise UserError(
            f"the data have {len(source.classes)} classes ({source.classes[0]}, …), which are not those of {run}: "
            f"{len(description.classes)} ({description.classes[0]}, …)",
            "evaluate on data of the same classes",
        )
    if source.shape[0] != description.data_channels:
        raise UserError(
            f"the images have {source.shape[0]} channels, those of {run} had {description.data_channels}",
            "evaluate on images of the same kind",
        )
    return source


def _build(description: Description) -> BuiltModel:
    return build_model(
        description.model,
        classes=len(description.classes),
        channels=description.data_channels,
        data_size=description.data_size,
        image_size=description.image_size,
    )
