"""Opens the images to evaluate a run on, and notes if they are not those that it was validated on."""

from dataclasses import dataclass
from pathlib import Path

from accel_train.checkpoints.data_files import read_files
from accel_train.checkpoints.run_folder import Description
from accel_train.config.import_string import is_function_name, trusted
from accel_train.config.options import EvaluateConfig, ResolvedConfig
from accel_train.data.contents import Contents, also_in, changes, contents_of, files_of
from accel_train.data.open import is_folder, is_path, open_data, open_for_evaluation, refuse_unused_directory
from accel_train.data.sources.base import DataSet, LabelsFrom, Source
from accel_train.errors import UserError
from accel_train.loggers.text import quantity
from accel_train.run.bad_images import read_bad_images, without


@dataclass(frozen=True)
class EvaluationData:
    """The images to evaluate on."""

    source: Source
    notes: tuple[str, ...] = ()
    """What the user should know of them, one sentence each."""


def open_evaluation_data(
    config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path
) -> EvaluationData:
    """Open the validation or test images of the run's own data, or of other data with the same classes and channels.

    Raises:
        UserError: there are no such images.
    """
    own = config.data is None or (config.data == trained_by.data and is_function_name(config.data))
    if own:
        config = _with_data_of(trained_by, config, run)
    assert config.data
    refuse_unused_directory(config.data, config.data_dir)
    if is_path(config.data) and is_folder(config.data) and not (own and config.split == "val"):
        found = _folder(config.data, config, trained_by, description, run)
    else:
        found = _whole(config.data, config, trained_by, description, run, own=own)
    _check(found.source, description, run)
    return found


def _with_data_of(trained_by: ResolvedConfig, config: EvaluateConfig, run: Path) -> EvaluateConfig:
    """Return the config with the data of the run.

    Raises:
        UserError: they are not found, or the run folder names code that the user has not.
    """
    if config.labels or config.label_column:
        raise UserError(
            f"--labels and --label-column have no effect on the data of {run}", "add --data, or leave them out"
        )
    if is_path(trained_by.data) and not is_folder(trained_by.data):
        labels = " with --labels FILE" * bool(trained_by.labels)
        raise UserError(
            f"{run} was trained on {trained_by.data}, which is not found from {Path.cwd()}",
            f"give it as --data PATH{labels}",
        )
    trusted(trained_by.data, config.data, "--data", run)
    names = ("data", "labels", "label_column")
    return config.model_copy(update={name: getattr(trained_by, name) for name in names})


def _whole(
    name: str, config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path, *, own: bool
) -> EvaluationData:
    """Open a split of a data set that is opened as a whole; note if the run's own has changed."""
    data = _open(name, config, trained_by, own=own)
    if own:
        data = without(data, read_bad_images(run), trained_by.limit)
    source = data.val if config.split == "val" else data.test
    if source is None:
        raise UserError(
            f"{name} has no test split with labels", "leave out --split: its validation images are then evaluated"
        )
    now = contents_of(data)
    if not own or now == description.contents or now.classes != description.classes:
        return EvaluationData(source)
    changed = changes(description.contents, now, read_files(run), files_of(train=data.train, val=data.val))
    return EvaluationData(source, (f"{name} has changed since {run} was trained: {changed}",))


def _folder(
    name: str, config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path
) -> EvaluationData:
    """Open a split of a folder; as val of one without splits, the images held out if it is the run's, else all."""
    listing = open_for_evaluation(
        Path(name),
        description.classes,
        str(run),
        split=config.split,
        labels=LabelsFrom(config.labels, config.label_column),
    )
    ((split, source),) = listing.splits.items()
    if split != "all" and not config.labels:
        return EvaluationData(source, listing.notes)
    if split == "all" and (held_out := _held_out(name, config, trained_by, description, run)):
        return EvaluationData(held_out, listing.notes)
    return EvaluationData(source, (*listing.notes, *_seen(source, name, run, whole=split == "all")))


def _seen(source: Source, name: str, run: Path, *, whole: bool) -> list[str]:
    """Note that images are evaluated that the run was, or, if they are a `whole` folder, may have been trained on."""
    files, trained = files_of(val=source), read_files(run)
    if not files or not trained:
        may = f"{name} has no val/: all its images are evaluated, perhaps also some that {run} was trained on"
        return [may] * whole
    seen, validated = (also_in(of, files["val"]) for of in (trained["train"], trained["val"]))
    if not seen - validated:  # files of equal names and sizes: those of its validation, as far as is known
        return []
    return [f"{run} was trained on {len(seen):,} of the {quantity(len(source), 'image')}"]


def _held_out(
    name: str, config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path
) -> Source | None:
    """Return the images that the run held out of these data; None if the run was trained on others."""
    try:
        data = open_data(
            name,
            directory=None,
            val_fraction=trained_by.val_fraction,
            seed=trained_by.seed,
            limit=None,
            labels=LabelsFrom(config.labels, config.label_column),
        )
        data = without(data, read_bad_images(run), None)
    except UserError:  # a class is missing, or too small to split: it is another folder
        return None
    return data.val if contents_of(data) == description.contents else None


def _open(name: str, config: EvaluateConfig, trained_by: ResolvedConfig, *, own: bool) -> DataSet:
    """Open a data set; nothing is downloaded to a folder that only the run names."""
    return open_data(
        name,
        directory=config.data_dir or trained_by.data_dir,
        val_fraction=trained_by.val_fraction if own else None,
        seed=trained_by.seed,
        limit=trained_by.limit if own else None,
        labels=LabelsFrom(config.labels, config.label_column),
        with_test=config.split == "test",
        download=config.data_dir is not None or trained_by.data_dir is None,
    )


def _check(source: Source, description: Description, run: Path) -> None:
    classes = Contents(tuple(map(str, source.classes)), {})
    if changed := changes(Contents(description.classes, {}), classes, None, None):
        raise UserError(
            f"the data have other classes than those of {run}: {changed}", "evaluate on data of the same classes"
        )
    if source.shape[0] != description.data_channels:
        raise UserError(
            f"the images have {quantity(source.shape[0], 'channel')}, those of {run} had {description.data_channels}",
            "evaluate on images of the same kind",
        )
