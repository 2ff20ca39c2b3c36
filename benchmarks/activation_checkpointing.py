"""Compares the peak memory and the CPU time of training with and without --activation-checkpointing.

Both train the model on synthetic images of 224 × 224 pixels for a few updates, and take turns. Memory is that of the
whole process: Python, torch and the data included; so is the time. Prints medians.

    python -m benchmarks.activation_checkpointing --models resnet50 --batch-sizes 8 16
"""

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.memory import peak_of

SWITCH = "--activation-checkpointing"


def measured(model: str, batch_size: int, updates: int, device: str, more: Sequence[str]) -> tuple[int, float]:
    """Return the peak memory in bytes, of the GPU if there is one, and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        words = [
            *(sys.executable, "-m", "accel_train", "train", "--no-report"),
            *("--model", model, "--batch-size", str(batch_size)),
            *("--data", f"synthetic:{batch_size * updates},3,224,224,10", "--epochs", "1", "--device", device),
            *("--json", "--quiet", "--output", f"{folder}/run", *more),
        ]
        peak, output = peak_of(words, os.environ)
    ended = json.loads(output.splitlines()[-1])
    if ended["kind"] != "end":
        raise SystemExit("error: the run did not finish")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended["gpu_memory_bytes"] or peak, after.ru_utime - before.ru_utime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["resnet50"])
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    sys.stdout.write(f"| model | batch | MB | with {SWITCH} | ÷ | CPU s ÷ |\n|---|---|---|---|---|---|\n")
    for model in options.models:
        for batch_size in options.batch_sizes:
            setting = (model, batch_size, options.updates, options.device)
            rounds = [(measured(*setting, []), measured(*setting, [SWITCH])) for _ in range(options.rounds)]
            plain, ours = (statistics.median(side[0] for side in sides) for sides in zip(*rounds, strict=True))
            seconds = statistics.median(with_it[1] / without[1] for without, with_it in rounds)
            cells = (f"{plain / 1e6:,.0f}", f"{ours / 1e6:,.0f}", f"{ours / plain:.2f}", f"{seconds:.2f}")
            sys.stdout.write(f"| {model} | {batch_size} | {' | '.join(cells)} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
