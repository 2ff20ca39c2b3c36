"""Measures the time from the start of a process to its first update: accel_train without a launcher, and bare torch.

Bare is `import torch, torchvision` and one update of the same model on a batch of noise with torch's own SGD: no data.
They take turns; the first round fills the page cache and is ignored. Prints wall seconds and CPU seconds of the
process, medians and ranges, also of the differences, and the wall seconds of `--help`.

    python benchmarks/start_up.py --rounds 7
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

BATCH = 64
SIDES = {"digits": 8, "fashion-mnist": 28}
"""Height and width of the images, by data set; they have one channel and ten classes."""
BARE = """
import sys
import torch, torchvision
from accel_train.models.networks import cnn
batch_size, side = map(int, sys.argv[1:])
model = cnn(10, 1, side)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
loss = torch.nn.functional.cross_entropy(model(torch.randn(batch_size, 1, side, side)), torch.arange(batch_size) % 10)
loss.backward()
optimizer.step()
print(flush=True)
"""
ACCEL_TRAIN = [sys.executable, "-m", "accel_train"]


@dataclass(frozen=True)
class Found:
    """Time to the first update."""

    seconds: float
    cpu_seconds: float


def bare(data: str) -> Found:
    return until([sys.executable, "-c", BARE, str(BATCH), str(SIDES[data])], lambda line: True)


def ours(data: str) -> Found:
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(*ACCEL_TRAIN, "train", "--data", data, "--model", "cnn", "--batch-size", str(BATCH), "--device", "cpu"),
            *("--log-every", "1", "--json", "--quiet", "--output", f"{folder}/run"),
        ]
        return until(words, lambda line: json.loads(line)["kind"] == "progress")


def until(words: Sequence[str], is_done: Callable[[str], bool]) -> Found:
    """Start a program; return the time until it writes a line for which `is_done` returns True; kill it."""
    started = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            if not any(is_done(line) for line in child.stdout):
                raise SystemExit(f"error: {' '.join(words)} did no update")
            cpu = psutil.Process(child.pid).cpu_times()
            return Found(time.perf_counter() - started, cpu.user + cpu.system)
        finally:
            child.kill()


def seconds_of_help() -> float:
    started = time.perf_counter()
    subprocess.run([*ACCEL_TRAIN, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=SIDES, default="fashion-mnist")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    rounds = [(bare(options.data), ours(options.data), seconds_of_help()) for _ in range(1 + options.rounds)][1:]
    bares, ourses, helps = zip(*rounds, strict=True)
    sys.stdout.write(f"{options.data}, cnn, batch {BATCH}\n\n| to the first update | wall s | CPU s |\n|---|---|---|\n")
    for name, taken in {"bare": bares, "accel_train train": ourses}.items():
        wall, cpu = spread([found.seconds for found in taken]), spread([found.cpu_seconds for found in taken])
        sys.stdout.write(f"| {name} | {wall} | {cpu} |\n")
    wall = spread([one.seconds - other.seconds for one, other in zip(ourses, bares, strict=True)])
    cpu = spread([one.cpu_seconds - other.cpu_seconds for one, other in zip(ourses, bares, strict=True)])
    sys.stdout.write(f"| difference | {wall} | {cpu} |\n\n`accel_train --help`: {spread(helps)} s\n")


def spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
