"""Measures images/s of accel_train against a bare loop, alternating in one run.

The bare loop trains the same model by the same optimizer on one batch that lies in memory: channels last, no data, no
augmentation, no metrics, no logging. Each turn is a process of its own. Prints medians and the ratio of each pair.

    python benchmarks/against_bare.py --pairs 5
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


def bare(batch_size: int, updates: int) -> float:
    """Return images/s from the second update on."""
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


def bare_in_its_own_process(batch_size: int, updates: int) -> float:
    words = [sys.executable, __file__, "--bare", str(batch_size), str(updates)]
    return float(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout)


def compare(batch_size: int, augment: str, pairs: int, images: int) -> None:
    rates = []
    for _ in range(pairs):
        rates.append((bare_in_its_own_process(batch_size, images // batch_size), ours(batch_size, images, augment)))
    ratios = [own / floor for floor, own in rates]
    floor, own = (statistics.median(side) for side in zip(*rates, strict=True))
    spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
    row = f"{batch_size:>6} {augment:>9} {floor:>9,.0f} {own:>9,.0f} {statistics.median(ratios):>7.3f} ({spread})"
    sys.stdout.write(row + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--images", type=int, default=12_800)
    parser.add_argument("--bare", type=int, nargs=2, metavar=("BATCH", "UPDATES"), help="only this, in this process")
    options = parser.parse_args()
    if options.bare:
        sys.stdout.write(f"{bare(*options.bare)}\n")
        return
    sys.stdout.write(f"torch {torch.__version__}, {torch.get_num_threads()} threads; images/s, medians\n")
    sys.stdout.write(f"{'batch':>6} {'augment':>9} {'bare':>9} {'ours':>9} {'ratio':>7}\n")
    for batch_size in (64, 256):
        for augment in ("none", "standard"):
            compare(batch_size, augment, options.pairs, options.images)


if __name__ == "__main__":
    main()
