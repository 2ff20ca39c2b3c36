"""Chooses the weights of a run that are evaluated, or that another run starts from."""

import os
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from accel_train.checkpoints.run_folder import Description, contains_run, read_description
from accel_train.config.load import read_config
from accel_train.config.options import ResolvedConfig
from accel_train.config.suggest import did_you_mean, suggestions
from accel_train.errors import UserError
from accel_train.events import RunEnded
from accel_train.history.files import CONFIG, METRICS, WEIGHTS
from accel_train.loggers.text import quoted
from accel_train.models.base import Preprocessing, Weights
from accel_train.models.build import published_weights
from accel_train.models.pretrained import weights_in
from accel_train.system.records import parse_json
from accel_train.system.regular_files import open_regular

_MOST_BYTES = 2**16
"""Of the last record of metrics.jsonl."""


def weights_to_evaluate(folder: Path, asked: str | None) -> tuple[str, tuple[str, ...]]:
    """Return which weights of a run to evaluate, and a note if they are not those of its last epoch though none asked.

    Raises:
        UserError: the run has not written them.
    """
    written = [name for name, file in WEIGHTS.items() if (folder / file).exists()]
    resume = f"resume it: {shlex.join(['accel_train', 'train', '--resume', str(folder)])}"
    if not written:
        raise UserError(f"{folder} has no weights yet: it ended before its first epoch did", resume)
    if asked and asked not in written:
        raise UserError(
            f"--weights {asked}: {folder} has not finished, and has no {WEIGHTS[asked]}",
            f"add --weights {written[0]}, or {resume}",
        )
    if asked or _has_finished(folder) or "best" not in written:
        chosen = asked or written[0]
        return chosen, _older_notes(folder) if chosen == "last" else ()
    return "best", (f"{folder} has not finished: its best weights so far are evaluated",)


def initial_weights(model: str, asked: str) -> tuple[Weights, tuple[str, ...]]:
    """Return the weights that --weights names, for a model, and a note if they are those of a run that has gone on.

    Names of the model's library come first, then a run folder or a file. What is published is downloaded if needed.

    Raises:
        UserError: there are none, they cannot be downloaded, or the run has not finished.
    """
    names = _published(model, asked)
    if asked in names:
        return names[asked](), ()
    file, notes = _file_of(Path(asked))
    if description := _description_beside(file):
        of_run = file.name in WEIGHTS.values()
        preprocessing = _as_evaluated(description.preprocessing, file.parent)
        found = weights_in(file, preprocessing, description.classes, needs_checksum=of_run)
        options = f"--model {quoted(description.model)}, --image-size {preprocessing.image_size}"
        return replace(found, options=options), notes
    return weights_in(file), notes


def check_weights(model: str, asked: str) -> None:
    """Check that the weights that --weights names exist; none are downloaded.

    Raises:
        UserError: there are none, or the run has not finished.
    """
    if asked not in _published(model, asked):
        _file_of(Path(asked))


def _published(model: str, asked: str) -> Mapping[str, Callable[[], Weights]]:
    """Return the published weights of a model; raise if `asked` is neither the name of some nor a path that exists."""
    names = {} if os.sep in asked else published_weights(model)
    if asked not in names and not Path(asked).exists():
        raise _unknown(model, asked, names)
    return names


def _unknown(model: str, asked: str, names: Collection[str]) -> UserError:
    message = f"--weights {quoted(asked)}: there is no such file or folder"
    if os.sep in asked:
        return UserError(message, "give a run folder or a file of weights")
    if not names:
        hint = "give a run folder or a file of weights, or a --model of torchvision or timm"
        return UserError(f"{message}, and {model} has no published weights", hint)
    hint = f"choose {', '.join([*names, 'none'])}, or give a run folder or a file"
    meant = did_you_mean(suggestions(asked, names), hint)
    return UserError(f"{message}, and {model} has no published weights of that name", meant)


def _description_beside(file: Path) -> Description | None:
    """Return the description of a run's model next to its weights; a config.json of another program does not count."""
    if contains_run(file.parent):
        return read_description(file.parent)
    with suppress(UserError):
        return read_description(file.parent)
    return None


def _file_of(path: Path) -> tuple[Path, tuple[str, ...]]:
    if not path.is_dir():
        return path, ()
    last, best = path / WEIGHTS["last"], path / WEIGHTS["best"]
    if best.exists() and not last.exists():
        hint = f"start from its best weights so far: --weights {quoted(best)}"
        raise UserError(f"--weights {quoted(path)} has not finished, and has no {last.name}", hint)
    return last, _older_notes(path)


def _as_evaluated(preprocessing: Preprocessing, run: Path) -> Preprocessing:
    """Add how pictures become square in a run's evaluation, if that is known."""
    with suppress(UserError):
        config = read_config(run / CONFIG, ResolvedConfig)
        return replace(preprocessing, crop=config.eval_crop, fit=config.fit)
    return preprocessing


def _older_notes(folder: Path) -> tuple[str, ...]:
    """Return a note if the last weights that a run has written are from before it was continued."""
    last = folder / WEIGHTS["last"]
    if not last.exists() or _has_finished(folder):
        return ()
    return (f"{folder} has not finished: {last.name} may be from before it was continued",)


def _has_finished(folder: Path) -> bool:
    """Return whether the history of a run ends with its end; the last weights may be from before it was extended."""
    if not (folder / WEIGHTS["last"]).exists():
        return False
    with suppress(OSError, ValueError), open_regular(folder / METRICS) as metrics:
        metrics.seek(max(0, os.fstat(metrics.fileno()).st_size - _MOST_BYTES))
        last = parse_json(metrics.read().rstrip().rpartition(b"\n")[2])
        return not isinstance(last, dict) or last.get("kind") == RunEnded.kind
    return True
