"""Measures images/s of accel_train against a bare loop, alternating in one run.

The bare loop trains the same model by the same optimizer on one batch that lies in memory: channels last, no data, no
augmentation, no metrics, no logging. "warm" is the same after one block of 30 MB was allocated and freed: glibc then
keeps the memory of large tensors instead of returning it to the system after each update, as it does in any process
that has loaded a data set. Each turn is a process of its own. Prints medians, and medians and ranges of the ratios.

    python benchmarks/against_bare.py --rounds 5
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from torch.nn import functional

from accel_train.models import build_model


def bare(batch_size: int, updates: int, warm: bool) -> float:
    """Return images/s from the second update on."""
    if warm:
        torch.ones(30 << 20, dtype=torch.uint8)
    torch.manual_seed(0)
    model = build_model("cnn", classes=10, channels=1, data_size=28, image_size=None).module
    model = model.to(memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True, weight_decay=5e-4)
    images_BCHW = torch.empty(batch_size, 1, 28, 28, memory_format=torch.channels_last).normal_()
    labels_B = torch.randint(0, 10, (batch_size,))
    started = 0.0
    for update in range(updates):
        if update == 1:
            started = time.perf_counter()
        functional.cross_entropy(model(images_BCHW), labels_B).backward()
        optimizer.step()
        optimizer.zero_grad()
    return (updates - 1) * batch_size / (time.perf_counter() - started)


def ours(batch_size: int, images: int, augment: str) -> float:
    """Return the images/s that accel_train states: from the second update to the last, validation apart."""
    with tempfile.TemporaryDirectory() as folder:
        sizes = ["--data", "fashion-mnist", "--model", "cnn", "--batch-size", str(batch_size), "--limit", str(images)]
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "accel_train", "train", *sizes, "--epochs", "1", "--augment", augment),
                *("--device", "cpu", "--json", "--output", f"{folder}/run"),
            ],
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    return float(json.loads(ended.stdout.splitlines()[-1])["images_per_second"])


def bare_in_its_own_process(batch_size: int, updates: int, warm: bool) -> float:
    words = [sys.executable, __file__, "--bare", str(batch_size), str(updates), str(int(warm))]
    return float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(batch_size: int, augment: str, rounds: int, images: int) -> None:
    rates = []
    for _ in range(rounds):
        floors = (bare_in_its_own_process(batch_size, images // batch_size, warm) for warm in (False, True))
        rates.append((*floors, ours(batch_size, images, augment)))
    medians = [f"{statistics.median(side):>8,.0f}" for side in zip(*rates, strict=True)]
    ratios = [(own / bare, own / warm) for bare, warm, own in rates]
    against = [f"{statistics.median(r):.2f} ({min(r):.2f}-{max(r):.2f})" for r in zip(*ratios, strict=True)]
    sys.stdout.write("  ".join((f"{batch_size:>5}", f"{augment:>8}", *medians, *against)) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--images", type=int, default=12_800)
    parser.add_argument(
        "--bare", type=int, nargs=3, metavar=("BATCH", "UPDATES", "WARM"), help="only this, in this process"
    )
    options = parser.parse_args()
    if options.bare:
        batch_size, updates, warm = options.bare
        sys.stdout.write(f"{bare(batch_size, updates, bool(warm))}\n")
        return
    sys.stdout.write(f"torch {torch.__version__}, {torch.get_num_threads()} threads; images/s, medians\n")
    sys.stdout.write("batch   augment      bare      warm      ours  ours/bare         ours/warm\n")
    for batch_size in (64, 256):
        for augment in ("none", "standard"):
            compare(batch_size, augment, options.rounds, options.images)


if __name__ == "__main__":
    main()
