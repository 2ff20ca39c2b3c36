"""Builds the model of a run: from the seed, or from given weights and the preprocessing that belongs to them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch

from accel_train.checkpoints.run_folder import Description
from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.fields import Fit
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.data.sources.base import DataSet, spread
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.batch_norm import set_momentum
from accel_train.models.build import BuiltModel, architecture_name, build_model
from accel_train.models.head import head_of
from accel_train.models.initialization import draw_head, set_residual_scale
from accel_train.models.pretrained import load_initial
from accel_train.models.stochastic_depth import set_stochastic_depth
from accel_train.models.timm_models import HUB
from accel_train.models.whitening import PatchWhitening
from accel_train.rng import make_key, seed_libraries
from accel_train.run.images import training_transform, view_of
from accel_train.run.resume_point import UNNAMED
from accel_train.run.weights import initial_weights
from accel_train.training.activation_checkpointing import checkpoint_blocks
from accel_train.training.out_of_memory import SMALLER_MODEL, is_out_of_memory

_OF_FLOATS = ({0.0}, {1.0})
"""Mean and standard deviation of a data set of floats, which are used as they are."""
_WHITENED_IMAGES = 5_000
"""From which the filters of a whitening layer are made (Jordan's code)."""
_AT_ONCE = 250
"""Of these, whose patches are in memory together."""


@dataclass(frozen=True)
class Start:
    """What a run starts from, found before it is known whether it resumes and needs that."""

    weights: Weights | None = None
    notes: tuple[str, ...] = ()
    architecture: str | None = None
    """The name of the model in its library; None if it is that by which it was asked for."""
    error: UserError | None = None
    """Why the weights cannot be had."""

    @property
    def fit(self) -> tuple[Fit | None, float | None] | None:
        """How the weights' pictures became square in evaluation, with the central crop, as far as it is known."""
        found = self.weights.preprocessing if self.weights else None
        return (found.fit, found.crop) if found else None


def find_start(asked: TrainConfig, data: DataSet) -> Start:
    """Find the weights that a config names, and download them if needed; a run that --resume names needs none.

    Call it before the process group exists, so that a long download cannot run into its timeout.
    """
    if not asked.starts_from_weights or asked.resume not in UNNAMED:
        return Start()
    try:
        model = asked.model or DATA_DEFAULTS[data.kind].model
        return Start(*initial_weights(model, asked.weights), architecture_name(model))
    except UserError as error:
        return Start(error=error)


def initial_model(
    config: ResolvedConfig, data: DataSet, start: Start, stored: Description | None
) -> tuple[DataSet, BuiltModel, tuple[str, ...]]:
    """Build the model of a run, and return the data set with the normalisation that it needs, and notices, too.

    `stored` describes the run to resume: its weights are not those of the start.

    Raises:
        UserError: the weights cannot be had, or do not fit the model.
    """
    if not config.starts_from_weights:
        model = stored.model if stored else config.model  # of a repository of the hub, a run stores what it describes
        return data, _build(config, model, data, None)[0], () if stored else _random_notes(config)
    if stored:
        data = _with_preprocessing(data, stored.preprocessing)
        return data, _build(config, stored.model, data, stored.preprocessing)[0], ()
    if start.error:
        raise start.error
    assert start.weights
    weights, asked = start.weights, start.weights.preprocessing
    data = _with_preprocessing(data, asked) if asked else data
    built, head = _build(config, config.model, data, asked)
    kept = weights.may_be_for(_classes(data)) or len(weights.classes or ()) != len(_classes(data))
    sentences = load_initial(built.module, weights, built.image_size, frozenset() if kept else head())
    return data, built, (*start.notes, *sentences, _preprocessing_note(asked, data, built.image_size, config.fit))


def fit_to_images(config: ResolvedConfig, data: DataSet, built: BuiltModel) -> None:
    """Make the layers of a new model that depend on the images, from training images without augmentation."""
    if not (layers := [part for part in built.module.modules() if isinstance(part, PatchWhitening)]):
        return
    images, view = spread(data.train, _WHITENED_IMAGES), view_of(config, built.image_size, data.interpolation)
    transform = training_transform(config, data, built, dtype=torch.float32, device=torch.device("cpu"))
    starts = range(0, len(images), _AT_ONCE)
    for layer in layers:
        read = (images.read(range(at, min(at + _AT_ONCE, len(images))), None, view)[0] for at in starts)
        layer.fit(transform(images_BCHW.cpu()) for images_BCHW in read)  # they may be held on the device


def _with_preprocessing(data: DataSet, asked: Preprocessing) -> DataSet:
    """Return the data set with the normalisation and interpolation of weights; images of floats remain as they are."""
    data = replace(data, interpolation=asked.interpolation)
    if (set(data.mean), set(data.std)) == _OF_FLOATS:
        return data
    repeated = len(data.mean) if len(asked.mean) == 1 else 1  # weights for grey images
    return replace(data, mean=asked.mean * repeated, std=asked.std * repeated)


def _build(
    config: ResolvedConfig, model: str, data: DataSet, asked: Preprocessing | None
) -> tuple[BuiltModel, Callable[[], frozenset[str]]]:
    """Build the model on the CPU from the seed; return also a function that finds the tensors of its head."""
    channels, height, width = data.train.shape
    classes = len(_classes(data))
    build = partial(
        build_model,
        model,
        channels=channels,
        data_size=max(height, width),
        image_size=config.image_size or (asked.image_size if asked else None),
        adapted_to=(asked.adapted_to or asked.image_size) if asked else None,
        size_reason="as asked" if config.image_size else "as for its weights",
    )
    seed_libraries(make_key(config.seed, "weights"))
    try:
        built = build(classes=classes)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"--model {config.model} does not fit into memory: {error}", SMALLER_MODEL) from None

    def find_head() -> frozenset[str]:
        return head_of(built.module, build(classes=classes + 1).module, built.name)

    _configure(config, built, find_head)
    return built, find_head


def _configure(config: ResolvedConfig, built: BuiltModel, head: Callable[[], frozenset[str]]) -> None:
    """Set what the config asks for of the model's layers and first weights."""
    if config.zero_init_residual is not None:
        set_residual_scale(built.module, float(not config.zero_init_residual), built.name)
    if config.head_init_std is not None:
        draw_head(built.module, head(), config.head_init_std)
    if config.batch_norm_momentum is not None:
        set_momentum(built.module, config.batch_norm_momentum, built.name)
    if config.stochastic_depth is not None:
        set_stochastic_depth(built.module, config.stochastic_depth, built.name)
    if config.activation_checkpointing:
        checkpoint_blocks(built.module, config.model)


def _classes(data: DataSet) -> tuple[str, ...]:
    return tuple(map(str, data.train.classes))


def _random_notes(config: ResolvedConfig) -> tuple[str, ...]:
    """Note that weights are random although the name of the model is that of weights, too."""
    if not (config.model.startswith(HUB) or (config.model.startswith("timm:") and "." in config.model)):
        return ()
    return (f"random weights: --weights DEFAULT starts from those of {config.model}",)


def _preprocessing_note(asked: Preprocessing | None, data: DataSet, image_size: int, fit: Fit | None) -> str:
    """Return how images are prepared, which decides as much as the weights; `fit` is None for images of one size."""
    means, stds = (" ".join(f"{value:.4g}" for value in values) for values in (data.mean, data.std))
    size = quantity(image_size, "pixel")
    if asked is None:
        return f"the weights do not tell their image size and normalisation: {size}, mean {means}, std {stds} are used"
    other = f" (its weights: {asked.image_size})" if image_size != asked.image_size else ""
    fitted = f", --fit {fit}" * bool(fit and asked.fit and {fit, asked.fit} != {"crop"})
    fitted += f" (its weights: {asked.fit})" * bool(fitted and fit != asked.fit)
    return f"images as for the weights: {size}{other}, {data.interpolation}, mean {means}, std {stds}{fitted}"
