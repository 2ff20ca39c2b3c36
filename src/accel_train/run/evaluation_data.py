"""Opens the images to evaluate a run on, and notes if they are not those that it was validated on."""

from dataclasses import dataclass
from pathlib import Path

from accel_train.checkpoints.run_folder import Description, read_files
from accel_train.config.import_string import is_function_name, trusted
from accel_train.config.options import EvaluateConfig, ResolvedConfig
from accel_train.data.contents import Contents, changes, contents_of, files_of
from accel_train.data.open import is_folder, is_path, open_data, open_for_evaluation
from accel_train.data.sources.base import DataSet, Source
from accel_train.errors import UserError
from accel_train.loggers.text import quantity


@dataclass(frozen=True)
class EvaluationData:
    """The images to evaluate on."""

    source: Source
    notes: tuple[str, ...] = ()
    """What the user should know of them, one sentence each."""


def open_evaluation_data(
    config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path
) -> EvaluationData:
    """Open the validation images of the run's own data, or of other data with the same classes and channels.

    Raises:
        UserError: there are no such images.
    """
    if config.data is None or (config.data == trained_by.data and is_function_name(config.data)):
        found = _own(config, trained_by, description, run)
    elif is_path(config.data) and is_folder(config.data):
        found = _folder(config.data, trained_by, description, run)
    else:
        found = EvaluationData(_open(config.data, config, trained_by, own=False).val)
    _check(found.source, description, run)
    return found


def _own(config: EvaluateConfig, trained_by: ResolvedConfig, description: Description, run: Path) -> EvaluationData:
    if is_path(trained_by.data) and not is_folder(trained_by.data):
        raise UserError(
            f"{run} was trained on {trained_by.data}, which is not found from {Path.cwd()}", "give it as --data PATH"
        )
    trusted(trained_by.data, config.data, "--data", run)
    data = _open(trained_by.data, config, trained_by, own=True)
    now = contents_of(data)
    if now == description.contents or now.classes != description.classes:
        return EvaluationData(data.val)
    changed = changes(description.contents, now, read_files(run), files_of(train=data.train, val=data.val))
    return EvaluationData(data.val, (f"{trained_by.data} has changed since {run} was trained: {changed}",))


def _folder(name: str, trained_by: ResolvedConfig, description: Description, run: Path) -> EvaluationData:
    """Open the split val of a folder; of one without, the images held out if it is the run's, else all."""
    listing = open_for_evaluation(Path(name), description.classes, str(run))
    ((split, source),) = listing.splits.items()
    if split == "val":
        return EvaluationData(source, listing.notes)
    if held_out := _held_out(name, trained_by, description):
        return EvaluationData(held_out, listing.notes)
    return EvaluationData(source, (*listing.notes, *_seen(source, name, run)))


def _seen(source: Source, name: str, run: Path) -> list[str]:
    """Note that all images of a folder are evaluated, although the run was, or may have been, trained on them."""
    files, trained = files_of(val=source), read_files(run)
    if not files or not trained:
        return [f"{name} has no val/: all its images are evaluated, perhaps also some that {run} was trained on"]
    seen = len(files["val"].items() & trained["train"].items())
    return [f"{run} was trained on {seen:,} of the {quantity(len(source), 'image')}"] * bool(seen)


def _held_out(name: str, trained_by: ResolvedConfig, description: Description) -> Source | None:
    """Return the images that the run held out of these data; None if the run was trained on others."""
    try:
        data = open_data(name, directory=None, val_fraction=trained_by.val_fraction, seed=trained_by.seed, limit=None)
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
