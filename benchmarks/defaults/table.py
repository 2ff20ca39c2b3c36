"""Prints the results of `measure` as Markdown: mean final accuracy by global batch, and the cells that fall short.

A cell is the mean over seeds, with half the range after ±. It ends with `*` if the run notes at its start why it may
learn little. A cell falls short if it is NaN, or more than 3 points below the best of its row without such a note.

    python -m benchmarks.defaults.table results.csv
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from benchmarks.defaults.measure import COLUMNS

Row = tuple[str, str, str]
"""Data set, model and optimizer."""
_TOLERANCE = 0.03
_START_NOTES = ("only ", "scaling stops ")
"""First words of the notes at the start of a run."""


def main(path: Path) -> None:
    """Print a table, and below it the cells that fall short."""
    cells: dict[Row, dict[int, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    with path.open(newline="") as file:
        for run in csv.DictReader(file, COLUMNS):
            cells[run["set"], run["model"], run["optimizer"]][int(run["global_batch"])].append(run)
    batches = sorted({batch for row in cells.values() for batch in row})
    print("| data | model | optimizer |", " | ".join(f"{batch:,}" for batch in batches), "|")
    print("|---|---|---|" + "---:|" * len(batches))
    short = []
    for row, by_batch in sorted(cells.items()):
        texts = [cell(by_batch[batch]) if batch in by_batch else "" for batch in batches]
        print("|", " | ".join([*row, *texts]), "|")
        best = max(accuracy(runs) for runs in by_batch.values())
        short += [(*row, str(batch)) for batch, runs in sorted(by_batch.items()) if falls_short(runs, best)]
    print()
    print(f"{len(short)} cells fall short" + "".join(f"\n- {', '.join(each)}" for each in short))


def accuracy(runs: list[dict[str, str]]) -> float:
    """Return the mean accuracy of the runs of a cell; 0 for those that failed."""
    return mean(0.0 if run["error"] else float(run["accuracy"]) for run in runs)


def falls_short(runs: list[dict[str, str]], best: float) -> bool:
    """Return whether runs failed, or learned less than the best without saying why."""
    failed = any(run["error"] and "larger than" not in run["error"] for run in runs)
    return failed or (not runs[0]["error"] and accuracy(runs) < best - _TOLERANCE and not noted(runs))


def noted(runs: list[dict[str, str]]) -> bool:
    return all(any(note.startswith(_START_NOTES) for note in run["notices"].split(" | ")) for run in runs)


def cell(runs: list[dict[str, str]]) -> str:
    """Return the text of a cell."""
    if any(run["error"] for run in runs):
        return "refused" if all("larger than" in run["error"] for run in runs) else "NaN"
    found = [float(run["accuracy"]) for run in runs]
    spread = f" ±{50 * (max(found) - min(found)):.1f}" if len(found) > 1 else ""
    return f"{100 * mean(found):.1f}{spread}{' *' * noted(runs)}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
