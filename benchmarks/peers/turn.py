"""One process of a turn: trains, and prints its times and memory as a JSON object.

    python -m benchmarks.peers.turn TRAINER WORK EVALUATE

Shape suffixes: B images, C channels, H height, W width.
"""

import json
import os
import sys
from importlib import import_module

import torch
from torch import nn

from benchmarks.peers.work import Clock, Work, read


def main() -> None:
    trainer, described, evaluated = sys.argv[1:]
    work = Work(**json.loads(described))
    torch.set_float32_matmul_precision("high" if work.precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = work.precision == "tf32"  # torch's default for convolutions differs
    clock = Clock(work)
    model = import_module(f"benchmarks.peers.{trainer}").train(work, clock)
    results = clock.results() | ({"accuracy": _accuracy(model, work)} if json.loads(evaluated) else {})
    sys.stdout.write(json.dumps(results) + "\n")
    sys.stdout.flush()
    os._exit(0)  # shutting down Gloo and torch takes a second, in which torch 2.14 may abort


@torch.no_grad()
def _accuracy(model: nn.Module, work: Work) -> float:
    """Return the fraction of validation images classified correctly."""
    data = work.open()
    model.eval()
    mean, std = (torch.tensor(values).view(1, -1, 1, 1) for values in (data.mean, data.std))
    right = 0
    for begin in range(0, len(data.val), 500):
        images_BCHW, labels_B = read(data.val, range(begin, min(begin + 500, len(data.val))))
        logits_BK = model(((images_BCHW / 255 - mean) / std).to(work.device))
        right += int((logits_BK.argmax(1).cpu() == labels_B).sum())
    return right / len(data.val)


if __name__ == "__main__":
    main()
