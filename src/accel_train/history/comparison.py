"""Compares runs: which options differ, and where their losses part."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from accel_train.config.derived import is_chosen
from accel_train.errors import UserError
from accel_train.history.config_file import read_settings
from accel_train.history.run import RunHistory

_SKIPPED = frozenset({"output", "resume", "report", "data_dir"})
"""Fields of the config that say where a run is, not what it is."""
QUANTITIES = {
    "learning rate": "lr",
    "images": "local_ids_hash",
    "loss": "local_loss",
    "gradient norm": "gradient_norm",
}
"""What is known of an update: fields of Progress by name, in the order in which one follows from another."""


@dataclass(frozen=True)
class Parting:
    """The first update, or epoch, at which two runs differ, of those that both have logged."""

    unit: str
    """``update``, or ``epoch`` if losses of updates cannot be compared."""
    equal_until: int | None
    """The last one at which they were equal; None if there is none, or no common one."""
    differs_at: int | None
    """None: they are equal wherever both have logged."""
    quantity: str | None
    """The first that differs there: in the others, it may be the cause."""
    values: tuple[Any, Any] | None
    """Of that quantity."""
    losses: tuple[float, float] | None
    """Of both there."""


def different_values(values: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Return each key whose values are not all equal, with the value of each mapping; None where it is missing."""
    names = dict.fromkeys(name for mapping in values for name in mapping)
    found = {name: tuple(mapping.get(name) for mapping in values) for name in names}
    return {name: each for name, each in found.items() if any(value != each[0] for value in each)}


def different_options(runs: Sequence[RunHistory]) -> dict[str, tuple[Any, ...]]:
    """Return the options that are not the same in all runs, with the value of each run."""
    return {name: each for name, each in different_values([run.config for run in runs]).items() if name not in _SKIPPED}


def derived_options(runs: Sequence[RunHistory]) -> frozenset[str]:
    """Return the options that nobody gave in any of the runs: their values follow from others."""
    return frozenset.intersection(*map(_not_chosen, runs))


def _not_chosen(run: RunHistory) -> frozenset[str]:
    try:
        settings = read_settings(run.folder)
    except UserError:  # it is not known
        return frozenset()
    return frozenset(name for name, setting in settings.items() if not is_chosen(setting.origin))


def different_surroundings(runs: Sequence[RunHistory]) -> dict[str, tuple[Any, ...]]:
    """Return what else differs: hardware, versions, commit, and the images by their fingerprint."""
    return different_values([_surroundings(run.started) for run in runs])


def _surroundings(started: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"processes": started.get("world_size"), "commit": started.get("commit") or None}
    for part in ("identity", "versions"):
        found |= started[part] if isinstance(started.get(part), dict) else {}
    contents = started.get("contents")
    splits = contents.get("splits") if isinstance(contents, dict) else None
    for split, of in splits.items() if isinstance(splits, dict) else ():
        if isinstance(of, dict):
            found |= {f"{split} images": of.get("images"), f"{split} fingerprint": of.get("fingerprint")}
    return found


def parting(first: RunHistory, second: RunHistory) -> Parting:
    """Return where two runs part.

    The loss of an update is that of the first process. With another number of processes it is of other images, so
    that only the losses of epochs can be compared.
    """
    if first.started.get("world_size") != second.started.get("world_size"):
        return _by_epoch(first, second)
    pairs = _common(first.metrics.progress, second.metrics.progress, "update")
    return _parting("update", pairs, QUANTITIES, "local_loss")


def _by_epoch(first: RunHistory, second: RunHistory) -> Parting:
    pairs = _common(first.epochs, second.epochs, "epoch")
    return _parting("epoch", pairs, {"training loss": "train_loss", "validation loss": "val_loss"}, "train_loss")


def _common(first: Sequence[Any], second: Sequence[Any], key: str) -> dict[int, tuple[Any, Any]]:
    others = {getattr(event, key): event for event in second}
    return {number: (event, others[number]) for event in first if (number := getattr(event, key)) in others}


def _parting(unit: str, pairs: Mapping[int, tuple[Any, Any]], quantities: Mapping[str, str], loss: str) -> Parting:
    last = None
    for number, events in pairs.items():
        for quantity, name in quantities.items():
            values = getattr(events[0], name), getattr(events[1], name)
            if not same_number(*values):
                losses = getattr(events[0], loss), getattr(events[1], loss)
                return Parting(unit, last, number, quantity, values, losses)
        last = number
    return Parting(unit, last, None, None, None, None)


def same_number(first: Any, second: Any) -> bool:
    """Return whether two values are equal to the last bit; NaN equals NaN."""
    both_nan = all(isinstance(value, float) and math.isnan(value) for value in (first, second))
    return both_nan or bool(first == second)
