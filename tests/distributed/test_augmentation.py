"""Augmented runs do not depend on processes, loader workers, packing or an interruption."""

from pathlib import Path

import numpy as np
import pytest
from helpers.comparing import flags
from helpers.marks import slow
from helpers.runner import Runner, read_metrics
from PIL import Image

EVERYTHING = {
    "crop_scale": "0.4,1",
    "shift": 1,
    "flip": 0.5,
    "vertical_flip": 0.3,
    "rotate": 15,
    "color_jitter": "0.4,0.4,0.4,0.1",
    "rand_augment": "2,9",
    "random_erasing": 0.5,
}
SIX_MICRO_BATCHES = {"model": "cnn", "global_batch_size": 48, "batch_size": 8, "epochs": 1}


def make_pictures(folder: Path) -> None:
    for label, name in enumerate("ab"):
        (folder / name).mkdir(parents=True)
        for number in range(30):
            pixels = np.random.default_rng(100 * label + number).integers(0, 256, (50, 40 + number, 3), dtype=np.uint8)
            Image.fromarray(pixels // (label + 1)).save(folder / name / f"{number}.png")


def weights(run: Runner, name: str, processes: int = 1, **options: object) -> bytes:
    output = run.folder / name
    ended = run("train", *flags({**SIX_MICRO_BATCHES, **options, "output": output}), "--exact", processes=processes)
    assert ended.code == 0, ended.err
    return (output / "model.safetensors").read_bytes()


def test_images_in_memory_are_augmented_alike_on_any_number_of_processes_and_after_an_interruption(run: Runner) -> None:
    options = {"data": "digits", "limit": 480, "save_every": "3updates", **EVERYTHING}
    alone = weights(run, "alone", keep=10, **options)
    assert weights(run, "two", processes=2, **options) == alone
    assert weights(run, "three", processes=3, workers=1, **options) == alone
    in_mid_epoch = run.folder / "alone/checkpoints/update_000006"
    ended = run("train", "--resume", str(in_mid_epoch), "--output", "resumed", processes=2)
    assert ended.code == 0, ended.err
    assert "resuming" in ended.err + ended.out
    assert (run.folder / "resumed/model.safetensors").read_bytes() == alone
    (started,) = read_metrics(run.folder / "alone", "run")
    assert started["augment"] == (
        "light: random resized crop of 0.4 to 1 of the area, shift by up to 1 pixel, flip, "
        "vertical flip with probability 0.3, rotation by up to 15°, colour jitter 0.4 0.4 0.4 0.1, "
        "RandAugment 2 × magnitude 9, random erasing 0.5"
    )


@pytest.mark.parametrize("fit", ["crop", "pad", slow("squash")])
def test_pictures_are_augmented_alike_with_workers_processes_and_packing(run: Runner, fit: str) -> None:
    make_pictures(run.folder / "pictures")
    assert run("pack", "pictures", "packed", "--side", "100").code == 0  # larger than all: nothing is resized
    options = {"augment": "strong", "image_size": 24, "fit": fit}
    alone = weights(run, "alone", data="pictures", workers=0, **options)
    assert weights(run, "one", data="pictures", workers=1, processes=2, **options) == alone
    assert weights(run, "three", data="packed", workers=3, **options) == alone
    evaluated = run("evaluate", "alone", "--json").records[-1]
    assert evaluated["loss"] == pytest.approx(read_metrics(run.folder / "alone", "epoch")[-1]["val_loss"], rel=1e-6)
