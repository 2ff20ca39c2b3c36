"""The model of a run with its preprocessing, for use: evaluation, prediction, export."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from accel_train.checkpoints.checkpointer import load_weights
from accel_train.checkpoints.run_folder import Description, read_description
from accel_train.config.defaults import Augmentation
from accel_train.config.fields import Precision, expand_home
from accel_train.config.import_string import is_function_name, trusted
from accel_train.config.load import read_config
from accel_train.config.options import ResolvedConfig
from accel_train.config.panels import Machine
from accel_train.data.images.view import View
from accel_train.data.loader import LoaderSizes, choose_workers, evaluation_loader
from accel_train.data.sources.base import Source
from accel_train.data.transforms import ImageTransform
from accel_train.distributed.accelerator import Processes, start
from accel_train.distributed.environment import share_of_cores
from accel_train.errors import UserError
from accel_train.history.files import CONFIG, DESCRIPTION, WEIGHTS
from accel_train.models.build import build_model
from accel_train.models.size_limit import values_at_most
from accel_train.models.timm_models import HUB
from accel_train.run.images import picture_view, view_of
from accel_train.run.resume_point import decisive_options
from accel_train.run.weights import weights_to_evaluate
from accel_train.training.torch_settings import keep_freed_memory, set_torch_options


@dataclass(frozen=True)
class RunModel:
    """The model of a run, and how images are prepared for it."""

    folder: Path
    config: ResolvedConfig
    """Of its training."""
    description: Description
    weights: str
    """last or best."""
    notes: tuple[str, ...]
    """What the user should know of the weights, one sentence each."""
    module: nn.Module
    """In evaluation mode, on the CPU, in fp32."""

    @property
    def classes(self) -> tuple[str, ...]:
        return self.description.classes

    @property
    def view(self) -> View:
        """How the images of data like the run's are read."""
        return view_of(self.config, self.description.image_size, self.description.interpolation)

    @property
    def picture_view(self) -> View:
        """How a picture file of any size is read."""
        return picture_view(self.config, self.description)

    def transform(self, dtype: torch.dtype, device: torch.device) -> ImageTransform:
        """Return the transform of images as read into the model's input."""
        description = self.description
        return ImageTransform(
            seed=0,
            augmentation=Augmentation(),
            channels=description.channels,
            size=description.image_size,
            mean=description.mean,
            std=description.std,
            interpolation=description.interpolation,
            dtype=dtype,
            device=device,
        )


@dataclass(frozen=True)
class StoredRun:
    """A run folder whose description and config have been read; its model is not built yet."""

    folder: Path
    config: ResolvedConfig
    description: Description
    model: str
    """Its name, which may import code: that of the user, if it is a function."""

    def load(self, weights: str | None = None) -> RunModel:
        """Build the model with its weights: last or best, by default the last if the run has finished.

        Raises:
            UserError: the run has no such weights, or they are of another model.
        """
        chosen, notes = weights_to_evaluate(self.folder, weights)
        tensors = load_weights(self.folder / WEIGHTS[chosen])
        module = _module(self, tensors).eval()
        return RunModel(self.folder, self.config, self.description, chosen, notes, module)


def open_run(folder: Path, model: str | None = None) -> StoredRun:
    """Read what a run folder says of its model.

    `model` is the user's own function that makes it, if it is one: a run folder is not trusted to name code.

    Raises:
        UserError: the folder is no run's, or names code that the user has not.
    """
    folder = expand_home(folder)
    description = read_description(folder)
    config = read_config(folder / CONFIG, ResolvedConfig)
    name = trusted(description.model, model, "--model", folder)
    if name.startswith(HUB):  # a run stores the model that a repository has named
        raise UserError(f"{folder} names a repository of the hub: {name}", "give a folder that accel_train has written")
    return StoredRun(folder, config, description, name)


def start_inference(config: Machine, precision: Precision) -> Processes:
    """Collective: set torch's options and form the process group, for a model that is not trained."""
    set_torch_options(config.threads, exact=False)
    keep_freed_memory()
    return start(
        device=config.device,
        backend=config.backend,
        precision=precision,
        timeout=config.timeout,
        strategy="ddp",  # whatever the launcher says: nothing is trained
        common=decisive_options(config),
    )


def on_device(module: nn.Module, processes: Processes) -> nn.Module:
    """Return a model on the device of this process, in the precision asked for; it is called without collectives."""
    module = module.to(processes.dtype).to(memory_format=torch.channels_last)
    prepared: nn.Module = processes.accelerator.prepare_model(module, evaluation_mode=True)
    return prepared


def inference_loader(source: Source, view: View, processes: Processes, *, batch_size: int, workers: str) -> Any:
    """Return a prepared loader that divides the images of a source among the processes.

    Every batch is full, and begins at the same images on any number of processes.
    """
    on_cpu, on_gpu = processes.device.type == "cpu", processes.device.type == "cuda"
    count = choose_workers(workers, source, cores=share_of_cores(), on_cpu=on_cpu)
    sizes = LoaderSizes(batch_size, processes.count, count, pin_memory=count > 0 and on_gpu)
    return processes.accelerator.prepare(evaluation_loader(source, view, sizes))


def _module(run: StoredRun, weights: dict[str, Tensor]) -> nn.Module:
    """Build the model of a run, with its weights.

    Raises:
        UserError: the weights are of another model.
    """
    description = run.description
    build = partial(
        build_model,
        run.model,
        classes=len(description.classes),
        channels=description.data_channels,
        data_size=description.data_size,
        image_size=description.image_size,
        adapted_to=description.adapted_to,
    )
    module = build().module if is_function_name(run.model) else None
    try:
        if module is None:  # not the user's own code: the name may be anybody's
            with values_at_most(2 * sum(weight.numel() for weight in weights.values())):  # layers may be replaced
                module = build().module
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(
            f"the weights in {run.folder} are not those of its {DESCRIPTION}: {' '.join(str(error).split())}",
            "give the folder of another run",
        ) from None
    return module
