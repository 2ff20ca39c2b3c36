"""A run whose accuracy is poor ends with notes, each with its figure and an option; a healthy run ends with none."""

import re

import pytest
from helpers.runner import Ended, Runner

MLP = ("--data", "digits", "--model", "mlp", "--device", "cpu", "--quiet")
FEW_IMAGES = ("--limit", "60", "--epochs", "30", "--batch-size", "8", "--augment", "none")
NOISE = """
import torch

class Images:
    classes = ("a", "b")

    def __init__(self, count, seed):
        random = torch.Generator().manual_seed(seed)
        self.images = torch.rand(count, 1, 8, 8, generator=random)
        self.labels = torch.randint(2, (count,), generator=random).tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], self.labels[i]

def data():
    return Images(200, 0), Images(200, 1)
"""


def advice(ended: Ended) -> list[str]:
    """Return the notes after the result."""
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    result = next(number for number, line in enumerate(lines) if line.startswith("validation accuracy "))
    return [line.removeprefix("note: ") for line in lines[result + 1 :] if line.startswith("note: ")]


@pytest.mark.parametrize("processes", [1, 2])
def test_healthy_run_ends_without_advice(run: Runner, processes: int) -> None:
    assert advice(run("train", *MLP, "--epochs", "12", "--report", processes=processes)) == []


def test_short_run_whose_loss_falls_is_told_to_train_longer(run: Runner) -> None:
    ended = run("train", *MLP, "--epochs", "3", "--lr", "0.01")
    (note,) = advice(ended)
    assert re.fullmatch(
        r"the validation loss still fell, from (\d\.\d{3}) to (\d\.\d{3}) in the last epoch: try --epochs 12", note
    ), note
    (better,) = re.findall(r"validation accuracy (0\.\d+)", run("train", *MLP, "--epochs", "12", "--lr", "0.01").out)[
        :1
    ]
    (poor,) = re.findall(r"validation accuracy (0\.\d+)", ended.out)[:1]
    assert float(better) > float(poor)


@pytest.mark.parametrize("processes", [1, 2])
def test_few_images_and_overfitting_are_told(run: Runner, processes: int) -> None:
    ended = run("train", *MLP, *FEW_IMAGES, processes=processes)
    few, overfitting = advice(ended)
    assert few.startswith("6 training images per class are few for a model from random weights: try --model resnet18 ")
    assert re.match(r"training accuracy (0\.9|1\.0)\d* is far above validation 0\.\d+: try --augment ", overfitting)


def test_images_that_are_enlarged_are_told(run: Runner) -> None:
    words = ("--epochs", "1", "--image-size", "64", "--limit", "640", "--lr", "0.001")
    (note, *_) = advice(run("train", *MLP, *words))
    assert note.startswith("images of 8 × 8 pixels are enlarged to 64 × 64, which adds no detail: try --image-size 32 ")


def test_class_that_is_never_predicted_is_told(run: Runner) -> None:
    notes = advice(run("train", *MLP, "--epochs", "1", "--lr", "0.01", "--batch-size", "16", "--report"))
    assert any(
        re.match(r"\d of 10 classes (is|are) never predicted, (such as|namely) \d \(\d+ validation ", note)
        for note in notes
    )


def test_high_learning_rate_is_told(run: Runner) -> None:
    rate = ("--lr", "10", "--lr-scaling", "none")
    (note, *_) = advice(run("train", *MLP, *rate, "--epochs", "3", "--batch-size", "16", "--clip-norm", "0.1"))
    assert note.startswith("the peak learning rate was 10 for 16 images per update, above 0.1, the limit for mlp: try ")


def test_labels_that_look_shuffled_are_told(run: Runner) -> None:
    (run.folder / "noise.py").write_text(NOISE)
    words = (
        "--data",
        "noise:data",
        "--model",
        "mlp",
        "--device",
        "cpu",
        "--quiet",
        "--batch-size",
        "8",
        "--augment",
        "none",
    )
    (note, *_) = advice(run("train", *words, "--epochs", "60"))
    assert re.match(r"training accuracy (0\.[89]|1\.0)\d*, but validation 0\.\d+, which is chance ", note), note
    assert "the labels look shuffled; compare them with the images: accel_train preview --data noise:data" in note
