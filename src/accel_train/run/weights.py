"""Chooses the weights of a run that are evaluated, or that another run starts from."""

import os
import shlex
from contextlib import suppress
from pathlib import Path

from accel_train.checkpoints.run_folder import METRICS, WEIGHTS
from accel_train.errors import UserError
from accel_train.events import RunEnded
from accel_train.loggers.text import quoted
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


def initial_weights(path: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the file of a run's last weights, given its folder or that file, and a note if the run has gone on since.

    Raises:
        UserError: there is none, or the run has not finished.
    """
    if not path.exists():
        raise UserError(
            f"--init-from {quoted(path)}: there is no such file or folder", "give a run folder or file of weights"
        )
    if not path.is_dir():
        return path, ()
    last, best = path / WEIGHTS["last"], path / WEIGHTS["best"]
    if best.exists() and not last.exists():
        hint = f"start from its best weights so far: --init-from {quoted(best)}"
        raise UserError(f"--init-from {quoted(path)} has not finished, and has no {last.name}", hint)
    return last, _older_notes(path)


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
