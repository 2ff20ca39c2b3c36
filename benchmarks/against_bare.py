"""Measures images/s of accel_train against a bare loop, alternating in one run.

The bare loop trains the same model with the same optimizer on one batch in memory: no data, augmentation, metrics or
logging. Each turn is a process of its own. Prints medians, and the median of the ratios.

    python benchmarks/against_bare.py --rounds 5
"""

import argparse
import sys

import torch

from accel_train.bench.measure import Workload, measure
from accel_train.bench.results import Setting


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=38_400)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    sys.stdout.write(f"torch {torch.__version__}, {torch.get_num_threads()} threads; images/s, medians\n")
    sys.stdout.write("batch   augment      bare      ours  ours/bare\n")
    for batch_size in (64, 256):
        updates = options.images // (batch_size * options.processes)
        setting = Setting("cpu", batch_size, "fp32", compile=False, processes=options.processes, updates=updates)
        for augment in ("none", "standard"):
            row = measure(Workload("fashion-mnist", "cnn", augment), setting, against_bare=True, rounds=options.rounds)
            if row.measurement is None:
                sys.exit(f"batch {batch_size}: {row.failure}")
            rates = f"{row.bare_images_per_second:>8,.0f}  {row.measurement.images_per_second:>8,.0f}"
            sys.stdout.write(f"{batch_size:>5}  {augment:>8}  {rates}  {row.ratio_to_bare:.2f}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
