"""Runs side by side: their results, and what differs between them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from accel_train.history.comparison import Parting, derived_options, different_options, different_surroundings, parting
from accel_train.history.paired import PairedRuns, compare_predictions
from accel_train.history.run import RunHistory
from accel_train.history.summary import Summary


@dataclass(frozen=True)
class Compared:
    """Runs by their letters; the first is compared with each of the others."""

    runs: Mapping[str, RunHistory]
    summaries: Sequence[Summary]
    costs: Sequence[float | None]
    options: Mapping[str, tuple[Any, ...]]
    derived: frozenset[str]
    """Those of the options that nobody gave in any of the runs."""
    surroundings: Mapping[str, tuple[Any, ...]]
    partings: Mapping[str, Parting]
    """By the letter of the other run."""
    tests: Mapping[str, PairedRuns]

    def as_record(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        results = zip(self.summaries, self.costs, strict=True)
        return {
            "runs": [{**asdict(run), "cost": cost} for run, cost in results],
            "options": self.options,
            "derived_options": sorted(self.derived & self.options.keys()),
            "surroundings": self.surroundings,
            "against_first": [
                {
                    "run_folder": str(self.runs[letter].folder),
                    "parting": asdict(self.partings[letter]),
                    "paired_test": asdict(paired.test) if paired.test else None,
                    "notes": paired.notes,
                }
                for letter, paired in self.tests.items()
            ],
        }


def compare_runs(
    runs: Mapping[str, RunHistory], summaries: Sequence[Summary], prices: Sequence[float] | None
) -> Compared:
    """Compare two or more runs, given by letters; `prices` are those of their hardware per hour."""
    histories, (first, *others) = list(runs.values()), runs
    costs: list[float | None] = [None] * len(summaries)
    if prices:
        hours = [None if run.seconds is None else run.seconds / 3600 for run in summaries]
        costs = [None if of_run is None else of_run * price for of_run, price in zip(hours, prices, strict=True)]
    return Compared(
        runs=runs,
        summaries=summaries,
        costs=costs,
        options=different_options(histories),
        derived=derived_options(histories),
        surroundings=different_surroundings(histories),
        partings={letter: parting(runs[first], runs[letter]) for letter in others},
        tests={letter: compare_predictions(runs[first], runs[letter]) for letter in others},
    )
