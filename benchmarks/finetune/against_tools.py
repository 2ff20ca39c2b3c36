"""Fine-tunes the same model from the same weights with other tools, each for the same time, in turn.

The tools are accel_train with its defaults, the loop of timm's train script, as it is and with options for fine-tuning,
and fastai. How long an epoch takes is measured first, with a run of one epoch and one of three; each tool is then given
as many epochs as come closest to --seconds, its start included. --clock cpu counts CPU seconds instead, with --threads
1, which other programs disturb less. A row per run is appended to a CSV file; what is in it already is left out.

    python -m benchmarks.finetune.materials FOLDER
    HF_HUB_CACHE=FOLDER/hub python -m benchmarks.finetune.against_tools FOLDER/emoji FOLDER/fashion \\
        --out results.csv --seconds 120 --seeds 0 1 --python fastai=/path/to/python
"""

import argparse
import csv
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.finetune.tools.turn import Turn, told, words

TOOLS = {
    "accel_train": ("ours",),
    "timm": ("timm_script",),
    "timm, tuned": ("timm_script", "--tuned"),
    "fastai": ("fastai_form",),
}
"""By name: the module of :mod:`benchmarks.finetune.tools`, and what it is given besides the turn."""
COLUMNS = ("set", "tool", "size", "epochs", "seed", "accuracy", "best", "wall", "cpu", "error")
_SHORT, _LONG = 1, 3
"""Epochs of the runs that find out how long an epoch takes."""
_OF_TIMING = 1000
"""Seed of these runs."""


def main() -> None:
    args = arguments()
    args.out.touch()
    plans = {(data, tool): epochs_that_fit(data, tool, args) for data in args.data for tool in args.tools}
    for seed in args.seeds:
        for (data, tool), epochs in plans.items():
            row = run(tool, Turn(data, epochs, args.size, seed), args)
            print(seed, *(row[name] for name in ("set", "tool", "epochs", "accuracy", "wall", "cpu")), flush=True)
    print_table(args, plans)


def epochs_that_fit(data: Path, tool: str, args: argparse.Namespace) -> int:
    """Return the epochs that take a tool about the seconds that it has, at least one."""
    turns = [run(tool, Turn(data, epochs, args.size, _OF_TIMING), args) for epochs in (_SHORT, _LONG)]
    if failed := [turn["error"] for turn in turns if turn["error"]]:
        raise SystemExit(f"{tool}: {failed[0]}")
    short, long = (float(turn[args.clock]) for turn in turns)
    of_epoch = (long - short) / (_LONG - _SHORT)
    return max(1, round((args.seconds - short + _SHORT * of_epoch) / of_epoch))


def run(tool: str, turn: Turn, args: argparse.Namespace) -> dict[str, Any]:
    """Train in a process of its own, or return the row of an earlier run."""
    key = {"set": turn.data.name, "tool": tool, "size": turn.size, "epochs": turn.epochs, "seed": turn.seed}
    for row in rows(args.out):
        if all(row[name] == str(value) for name, value in key.items()):
            return row
    module, *more = TOOLS[tool]
    python = args.python.get(tool, sys.executable)
    command = [python, "-m", f"benchmarks.finetune.tools.{module}", *words(turn), *more]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": str(args.threads)}
    began, cpu_began = time.perf_counter(), cpu_of_children()
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found: dict[str, Any] = {
        "wall": round(time.perf_counter() - began, 1),
        "cpu": round(cpu_of_children() - cpu_began, 1),
        "error": "" if process.returncode == 0 else process.stderr.strip().rpartition("\n")[2],
    }
    if not found["error"]:
        accuracies = told(process.stdout)
        found |= {"accuracy": accuracies[-1], "best": max(accuracies)}
    with args.out.open("a", newline="") as file:
        csv.DictWriter(file, COLUMNS, restval="").writerow(key | found)
    return dict.fromkeys(COLUMNS, "") | key | found


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file, COLUMNS)


def print_table(args: argparse.Namespace, plans: dict[tuple[Path, str], int]) -> None:
    found: dict[tuple[str, str], list[dict[str, str]]] = defaultdict(list)
    for row in rows(args.out):
        if int(row["seed"]) in args.seeds and int(row["size"]) == args.size:
            found[row["set"], row["tool"]].append(row)
    print("| data | tool | epochs | validation accuracy | best epoch | wall s | CPU s |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for (data, tool), epochs in plans.items():
        runs = [row for row in found[data.name, tool] if row["epochs"] == str(epochs)]
        if failed := [row["error"] for row in runs if row["error"]]:
            print(f"| {data.name} | {tool} | {epochs} | failed: {failed[0].splitlines()[-1]} | | | |")
            continue
        accuracies = " | ".join(spread([100 * float(row[name]) for row in runs]) for name in ("accuracy", "best"))
        seconds = " | ".join(f"{mean(float(row[name]) for row in runs):.0f}" for name in ("wall", "cpu"))
        print(f"| {data.name} | {tool} | {epochs} | {accuracies} | {seconds} |")


def spread(values: list[float]) -> str:
    """Return the mean, and half of the range."""
    return f"{mean(values):.1f} ±{(max(values) - min(values)) / 2:.1f}"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tools", nargs="+", default=list(TOOLS), choices=TOOLS)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--size", type=int, default=64, help="pixels")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--python", nargs="*", default=[], metavar="TOOL=PATH", help="Python that has this tool")
    args = parser.parse_args()
    args.python = dict(each.split("=", 1) for each in args.python)
    return args


if __name__ == "__main__":
    main()
