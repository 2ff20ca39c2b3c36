"""A run on a packed folder does not depend on the number of loader workers or, with --exact, of processes."""

from pathlib import Path

import numpy as np
from helpers.comparing import flags
from helpers.runner import Runner
from PIL import Image

RUN = {"data": "packed", "model": "cnn", "image_size": 24, "global_batch_size": 16, "batch_size": 8, "epochs": 1}


def make_packed(run: Runner) -> None:
    for label, name in enumerate("ab"):
        (run.folder / "src" / name).mkdir(parents=True)
        for number in range(24):
            pixels = np.random.default_rng(100 * label + number).integers(0, 256, (50, 60 + number, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(run.folder / "src" / name / f"{number}.png")
    assert run("pack", "src", "packed", "--side", "40").code == 0


def weights(run: Runner, name: str, processes: int = 1, **options: object) -> bytes:
    output: Path = run.folder / name
    ended = run("train", *flags({**RUN, **options, "output": output}), "--exact", processes=processes)
    assert ended.code == 0, ended.err
    return (output / "model.safetensors").read_bytes()


def test_weights_do_not_depend_on_workers_or_processes(run: Runner) -> None:
    make_packed(run)
    alone = weights(run, "alone", workers=0)
    assert weights(run, "workers", workers=2) == alone
    assert weights(run, "processes", processes=2, workers=1) == alone
    assert weights(run, "another seed", workers=0, seed=1) != alone
