"""Fine-tunes with nothing set but data, weights and batch size, and with other learning rates, and compares them.

For each number of emoji, model, batch size and seed, the peak learning rate that is chosen by default is multiplied by
each of FACTORS; 1 is the default itself. A row per run is appended to a CSV file; what is in it already is left out, so
that a series can be continued. At the end a table in Markdown is printed: the mean validation accuracy with the
defaults, with half the range over the seeds after ±, and that of the best other rate. `short` marks what failed or is
more than 3 points below the best.

    python -m benchmarks.finetune.materials FOLDER
    HF_HUB_CACHE=FOLDER/hub python -m benchmarks.finetune.defaults FOLDER --out results.csv \\
        --pictures 300 3000 --models timm:tf_efficientnet_lite0=DEFAULT --batches 16 64 256 512 --seeds 0 1 2
"""

import argparse
import csv
import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from benchmarks.defaults.measure import in_its_own_process
from benchmarks.finetune.materials import MODEL

FACTORS = ("1", "0.1", "0.3", "3", "10")
COLUMNS = ("pictures", "model", "batch", "seed", "factor", "peak_lr", "updates", "accuracy", "error", "seconds")
_TOLERANCE = 0.03
_SIZE = 64
"""Pixels of an emoji."""


class Cell(NamedTuple):
    """What is given in a run, besides the learning rate."""

    pictures: str
    model: str
    """With its weights, as NAME=WEIGHTS."""
    batch: str


def main() -> None:
    args = arguments()
    args.out.touch()
    folders = {count: subset(args.folder, int(count), args.validation) for count in args.pictures}
    for seed, *of_cell, factor in itertools.product(args.seeds, args.pictures, args.models, args.batches, args.factors):
        cell = Cell(*of_cell)
        done = {(row["seed"], row["factor"]): row for row in rows(args.out) if in_cell(row, cell)}
        default = done.get((seed, "1"))
        if (seed, factor) in done or int(cell.batch) > int(cell.pictures):
            continue
        rate = None if factor == "1" or default is None else float(default["peak_lr"]) * float(factor)
        found = measured(folders[cell.pictures], cell, seed, rate, args.options)
        with args.out.open("a", newline="") as file:
            row = {**cell._asdict(), "seed": seed, "factor": factor, **found}
            csv.DictWriter(file, COLUMNS, extrasaction="ignore").writerow(row)
    print_table(args.out)


def subset(folder: Path, training: int, validation: int) -> Path:
    """Return a data set of links to this many pictures, evenly spaced."""
    root = folder / f"emoji_{training}_{validation}"
    for split, count in (("train", training), ("val", validation)):
        pictures = sorted((folder / "emoji" / split).rglob("*.png"))
        for picture in (pictures[n * len(pictures) // count] for n in range(count)):
            link = root / split / picture.parent.name / picture.name
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(picture.absolute())
    return root


def measured(data: Path, cell: Cell, seed: str, rate: float | None, options: list[str]) -> dict[str, Any]:
    """Train, with the default learning rate if `rate` is None."""
    model, _, weights = cell.model.partition("=")
    given: dict[str, Any] = {"data": str(data), "model": model, "weights": weights, "image_size": _SIZE, "seed": seed}
    given |= {"global_batch_size": cell.batch} | dict(option.split("=", 1) for option in options)
    return in_its_own_process(given | ({} if rate is None else {"lr": rate, "lr_scaling": "none"}))


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file, COLUMNS)


def in_cell(row: dict[str, str], cell: Cell) -> bool:
    return all(row[name] == value for name, value in cell._asdict().items())


def print_table(path: Path) -> None:
    """Print a row for each cell."""
    cells: dict[Cell, dict[str, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(path):
        cells[Cell(*(row[name] for name in Cell._fields))][row["factor"]].append(row)
    print("| pictures | model | batch | peak | updates | defaults | best other | |")
    print("|---:|---|---:|---:|---:|---:|---:|---|")
    for cell, by_factor in sorted(cells.items(), key=lambda item: (int(item[0][0]), item[0][1], int(item[0][2]))):
        usual = by_factor.pop("1")
        others = {factor: accuracy(runs) for factor, runs in by_factor.items()}
        best = max(others, key=others.__getitem__, default="")
        short = accuracy(usual) < others.get(best, 0.0) - _TOLERANCE
        columns = [cell.pictures, cell.model.partition("=")[0], cell.batch, f"{float(usual[0]['peak_lr']):.3g}"]
        columns += [usual[0]["updates"], text(usual), f"{text(by_factor[best])} at × {best}" if best else ""]
        print("|", " | ".join([*columns, "short" * short]), "|")


def accuracy(runs: list[dict[str, str]]) -> float:
    """Return the mean accuracy; 0 for runs that failed."""
    return mean(0.0 if run["error"] else float(run["accuracy"]) for run in runs)


def text(runs: list[dict[str, str]]) -> str:
    if any(run["error"] for run in runs):
        return "failed"
    found = [100 * float(run["accuracy"]) for run in runs]
    return f"{mean(found):.1f}" + f" ±{(max(found) - min(found)) / 2:.1f}" * (len(found) > 1)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", nargs="+", default=["300", "3000"])
    parser.add_argument("--validation", type=int, default=1855, help="pictures to validate on")
    parser.add_argument("--models", nargs="+", default=[f"timm:{MODEL}=DEFAULT"], metavar="NAME=WEIGHTS")
    parser.add_argument("--batches", nargs="+", default=["16", "64", "256", "512"])
    parser.add_argument("--factors", nargs="+", default=list(FACTORS))
    parser.add_argument("--seeds", nargs="+", default=["0", "1", "2"])
    parser.add_argument("--options", nargs="*", default=[], metavar="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
