"""Compares accel_train with the bare loop on a GPU: batch sizes, precisions, memory formats and compilation.

Images are noise in the sizes of FashionMNIST, CIFAR and ImageNet, or come from a folder. Turns, clock and table are
those of `benchmarks/peers`; memory is the GPU's.

    python -m benchmarks.gpu --rounds 3
    python -m benchmarks.gpu --works imagenet --data packed/
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from accel_train.data.open import open_data
from benchmarks.peers.__main__ import TRAINERS
from benchmarks.peers.report import BARE, OURS, Row, as_json, rows, setting, table, versions
from benchmarks.peers.rounds import take_rounds
from benchmarks.peers.work import Work

_WORKS: dict[str, tuple[str, str, list[int]]] = {
    "fashion-mnist": ("1,28,28,10", "cnn", [64, 256, 1024, 4096]),
    "cifar": ("3,32,32,10", "resnet18", [64, 256, 1024, 4096]),
    "imagenet": ("3,224,224,10", "resnet50", [64, 256]),
}
"""Channels, height, width and classes of the images; the model; batch sizes."""
_SETTINGS: list[dict[str, Any]] = [
    {"precision": "fp32", "channels_last": False},
    {"precision": "fp32"},
    {"precision": "tf32"},
    {"precision": "bf16"},
    {"precision": "bf16", "compile": True},
]


def main() -> None:
    options = _parse()
    device = "cpu" if options.cpu else "cuda"
    found: dict[str, list[Row]] = {}
    if not options.json:
        name = "CPU" if options.cpu else torch.cuda.get_device_name()
        sys.stdout.write(f"{name}, {versions()}\n\n")
    settings = [chosen for chosen in _SETTINGS if chosen["precision"] in options.precisions]
    for work in _works(options.works, options.batch_sizes, options.updates, options.data, settings):
        trainers = [BARE, OURS] if work.channels_last else [BARE]  # accel_train always uses channels last
        turns = take_rounds(
            trainers, replace(work, device=device), rounds=options.rounds, threads=options.threads, evaluate=False
        )
        found[_title(work)] = rows(turns)
        if not options.json:
            sys.stdout.write(f"{_title(work)}\n\n{table(TRAINERS, found[_title(work)])}\n")
            sys.stdout.flush()
    if options.json:
        sys.stdout.write(as_json(found))


def _works(
    names: list[str], batch_sizes: list[int] | None, updates: int, data: str | None, settings: list[dict[str, Any]]
) -> Iterator[Work]:
    """Yield each combination of work, batch size and setting."""
    for name in names:
        size, model, usual = _WORKS[name]
        for batch_size in batch_sizes or usual:
            images = updates * batch_size
            if data:
                opened = open_data(data, directory=None, val_fraction=None, seed=0, limit=images)
                images = len(opened.train)
            for chosen in settings:
                yield Work(batch_size, images, data=data or f"synthetic:{images},{size}", model=model, **chosen)


def _title(work: Work) -> str:
    layout = "" if work.channels_last else ", channels first"
    return f"{work.model} on {work.data}, {setting(work)}{layout}{', compiled' if work.compile else ''}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--works", nargs="+", choices=_WORKS, default=list(_WORKS))
    parser.add_argument("--data", help="folder of pictures, packed or not, instead of noise")
    parser.add_argument("--batch-sizes", type=int, nargs="+", help="instead of each work's defaults")
    parser.add_argument("--precisions", nargs="+", choices=["fp32", "tf32", "bf16"], default=["fp32", "tf32", "bf16"])
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--cpu", action="store_true", help="test this program on the CPU, without tf32")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        raise SystemExit("error: no GPU is available here; use --cpu to test this program")
    if options.cpu:  # has no TF32
        options.precisions = [precision for precision in options.precisions if precision != "tf32"]
    return options


if __name__ == "__main__":
    main()
