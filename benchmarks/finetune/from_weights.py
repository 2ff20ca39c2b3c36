"""Trains the same model on the emoji from ImageNet weights and from random ones, for the same number of epochs.

An epoch of both takes the same time. With --freeze the backbone of a third row is frozen, and it is checked that its
tensors, BatchNorm's statistics included, are those of the weights, bit for bit. Prints a table in Markdown: the mean
validation accuracy of the last epoch over the seeds and their range, and the seconds of a run. Options after `--` are
given to every run.

    python -m benchmarks.finetune.materials FOLDER
    python -m benchmarks.finetune.from_weights FOLDER --epochs 10 --seeds 0 1 2 --freeze
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import safetensors.torch
import timm
import torch

from benchmarks.finetune.materials import MODEL

STARTS = {
    "ImageNet weights": ("--weights", "DEFAULT"),
    "random weights": ("--weights", "none"),
    "ImageNet weights, frozen backbone": ("--weights", "DEFAULT", "--freeze", "backbone"),
}


class Result(NamedTuple):
    """The end of a run."""

    accuracy: float
    best: float
    seconds: float


def main() -> None:
    args = arguments()
    print(f"| {MODEL} from | validation accuracy, {args.epochs} epochs | best epoch | seconds |")
    print("|---|---:|---:|---:|")
    for start, options in STARTS.items():
        if "--freeze" in options and not args.freeze:
            continue
        results = []
        for seed in args.seeds:
            run = args.folder / "runs" / f"{re.sub('[ ,]+', '_', start)}_{args.epochs}_{seed}"
            results.append(train(run, args, seed, options))
            if "--freeze" in options:
                check_frozen(run, args.folder / "hub")
        last, best, seconds = (list(values) for values in zip(*results, strict=True))
        print(f"| {start} | {spread(last)} | {spread(best)} | {statistics.mean(seconds):.0f} |", flush=True)


def arguments() -> argparse.Namespace:
    words, more = sys.argv[1:], []
    if "--" in words:
        words, more = words[: words.index("--")], words[words.index("--") + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--freeze", action="store_true")
    args = parser.parse_args(words)
    args.more = more
    return args


def train(run: Path, args: argparse.Namespace, seed: int, options: tuple[str, ...]) -> Result:
    """Train, or read the results of an earlier run; a run that was interrupted resumes."""
    command = ["accel_train", "train", "--data", args.folder / "emoji", "--model", f"timm:{MODEL}", "--output", run]
    command += [
        "--image-size",
        args.image_size,
        "--epochs",
        args.epochs,
        "--seed",
        seed,
        *options,
        *args.more,
        "--quiet",
    ]
    cache = {"HF_HUB_CACHE": str((args.folder / "hub").absolute()), "HF_HUB_OFFLINE": "1"}
    subprocess.run([*map(str, command), *options, *args.more], env=os.environ | cache, stdout=sys.stderr, check=True)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (end,) = (record for record in records if record["kind"] == "end")
    return Result(end["val_accuracy"], end["best_val_accuracy"], end["seconds"])


def check_frozen(run: Path, cache: Path) -> None:
    """Check that all tensors but those of the head are the weights that the run has started from.

    Raises:
        SystemExit: one is not.
    """
    (file,) = cache.glob(f"models--*{MODEL}*/snapshots/*/model.safetensors")
    before, after = safetensors.torch.load_file(file), safetensors.torch.load_file(run / "model.safetensors")
    head = timm.get_pretrained_cfg(MODEL).classifier
    names = [name for name in before if not name.startswith(f"{head}.")]
    if changed := [name for name in names if not torch.equal(before[name], after[name])]:
        raise SystemExit(f"{run}: {len(changed)} of {len(names)} frozen tensors have changed, such as {changed[0]}")
    print(f"{run}: {len(names)} frozen tensors are unchanged", file=sys.stderr)


def spread(values: list[float]) -> str:
    """Return the mean, and half of the range."""
    return f"{100 * statistics.mean(values):.1f} ±{100 * (max(values) - min(values)) / 2:.1f}"


if __name__ == "__main__":
    main()
