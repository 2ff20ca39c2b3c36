"""Sums up a run in one row of numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from accel_train.history.files import CONFIG, DESCRIPTION, WEIGHTS
from accel_train.history.run import RunHistory, is_run, read_run

State = Literal["running", "finished", "unfinished", "damaged"]


@dataclass(frozen=True)
class Summary:
    """A run in numbers; None where it has none yet, or they cannot be read."""

    run_folder: str
    state: State
    problems: tuple[str, ...]
    """What of it cannot be read, or is missing, a sentence each."""
    began: str | None
    """ISO 8601, UTC."""
    data: str | None
    model: str | None
    parameters: int | None
    seed: int | None
    processes: int | None
    device: str | None
    precision: str | None
    global_batch: int | None
    epochs: int
    """Done; `planned_epochs` are asked for."""
    planned_epochs: int | None
    updates: int
    train_loss: float | None
    """Of the last epoch, like `val_loss`."""
    val_loss: float | None
    best_epoch: int | None
    best_val_accuracy: float | None
    """Of the weights that are exported: with EMA, the averaged ones."""
    val_accuracy: float | None
    """Of the last epoch, likewise."""
    images_per_second: float | None
    """In training, over all processes; of an unfinished run, in its last epoch."""
    seconds: float | None
    """Of the whole run; of an unfinished run, of the epochs that it has done."""
    gpu_memory_bytes: int | None
    """At most, in the first process; None without a GPU or before the end."""


def summaries(folder: Path, running: frozenset[Path]) -> Iterator[Summary]:
    """Yield the runs right inside a folder, by name; `running` are those that a process is writing."""
    for path in sorted(folder.iterdir()):
        if is_run(path):
            yield summarize(read_run(path), running=path in running)


def summarize(run: RunHistory, *, running: bool) -> Summary:
    """Return a run in numbers; a run that a process is writing is never damaged."""
    problems = () if running else (*run.problems, *_missing(run))
    state: State = "running" if running else "damaged" if problems else "finished" if run.finished else "unfinished"
    end, last, best, started = run.end, run.epochs[-1] if run.epochs else None, run.best, run.started
    updates = [p.update for p in run.metrics.progress[-1:]] + [epoch.update for epoch in run.epochs[-1:]]
    return Summary(
        run_folder=str(run.folder),
        state=state,
        problems=problems,
        began=run.metrics.times[0] if run.metrics.times else None,
        **_of_start(started),
        epochs=last.epoch if last else 0,
        planned_epochs=_planned(run),
        updates=max(updates, default=0),
        train_loss=last.train_loss if last else None,
        val_loss=last.val_loss if last else None,
        best_epoch=best.epoch if best else None,
        best_val_accuracy=best.selection_accuracy if best else None,
        val_accuracy=last.selection_accuracy if last else None,
        images_per_second=end.images_per_second if end else last.images_per_second if last else None,
        seconds=end.seconds if end else sum(epoch.seconds for epoch in run.epochs) or None,
        gpu_memory_bytes=(end.gpu_memory_bytes or None) if end else None,
    )


def _of_start(started: Any) -> dict[str, Any]:
    """Return the values of a run's first record that have the type of a summary's."""
    names = {"processes": "world_size"}
    kinds: dict[str, type] = dict.fromkeys(("data", "model", "device", "precision"), str)
    kinds |= dict.fromkeys(("parameters", "seed", "processes", "global_batch"), int)
    values = {name: started.get(names.get(name, name)) for name in kinds}
    return {name: value if isinstance(value, kinds[name]) else None for name, value in values.items()}


def _planned(run: RunHistory) -> int | None:
    """Return the epochs asked for; an extended run has more than it began with."""
    planned = run.started.get("epochs")
    return max(planned, run.epochs[-1].epoch if run.epochs else 0) if isinstance(planned, int) else None


def _missing(run: RunHistory) -> Iterator[str]:
    for name in (CONFIG, DESCRIPTION, *([WEIGHTS["last"]] if run.end else [])):
        if not (run.folder / name).is_file():
            yield f"{name} is missing"
