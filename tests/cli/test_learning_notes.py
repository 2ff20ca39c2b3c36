"""A run that diverges or learns nothing says so with a figure and the option to try, which then helps."""

import re
from pathlib import Path

import pytest
from helpers.marks import slow
from helpers.runner import Ended, Runner

ON_CPU = ("--data", "digits", "--model", "mlp", "--device", "cpu")
CHANCE = (*ON_CPU, "--epochs", "4", "--batch-size", "8", "--lr", "1e-7")
FEW = (*ON_CPU, "--epochs", "3", "--batch-size", "512")
MEMORIZED = (*ON_CPU, "--limit", "20", "--batch-size", "4", "--epochs", "50", "--augment", "none")
DIVERGED = (*ON_CPU, "--epochs", "2", "--batch-size", "64", "--lr", "3000", "--log-every", "5")
NAN_IMAGES = """
import torch

class Images:
    classes = ("a", "b")

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return torch.full((1, 8, 8), float("nan")), i % 2

def data():
    return Images(64), Images(16)
"""


def notes(ended: Ended) -> list[str]:
    """Return the notes that propose something."""
    found = [line.removeprefix("note: ") for line in ended.out.splitlines() if line.startswith("note:")]
    return [note for note in found if "try --" in note]


def options(text: str) -> list[str]:
    """Return the first options that a note or hint says to try."""
    found = re.search(r"try ((?:--[a-z-]+ [\d.e-]+ ?)+)", text)
    assert found, text
    return found[1].split()


@pytest.mark.parametrize(("processes", "flags"), [(1, ()), (2, ("--quiet",))])
def test_accuracy_at_chance_is_noted_once(run: Runner, processes: int, flags: tuple[str, ...]) -> None:
    ended = run("train", *CHANCE, *flags, processes=processes)

    assert ended.code == 0, ended.err
    [note] = notes(ended)
    hint = re.fullmatch(
        r"validation accuracy 0\.\d{4} after 3 epochs is chance \(the largest of 10 classes has 0\.1031\): "
        r"try --lr (\S+) \(peak now 1e-07\)",
        note,
    )
    assert hint, note
    assert float(hint[1]) == 0.005 * processes  # the usual peak of the global batch, rounded down
    assert ended.out.count(note) == 1


def test_few_updates_are_noted_before_training_and_the_options_help(run: Runner) -> None:
    ended = run("train", *FEW)
    preview = run("train", *FEW, "--dry-run")
    better = run("train", *FEW, *options(notes(ended)[0]))

    assert (ended.code, preview.code, better.code) == (0, 0, 0), ended.err + preview.err + better.err
    expected = "only 6 updates in 3 epochs (global batch 512 of 1,438 images): try --batch-size 16"
    assert notes(ended)[0] == expected
    assert ended.out.index(expected) < ended.out.index("epoch 1/3")
    assert notes(preview) == [expected]
    assert not any("updates" in note for note in notes(better))


def test_resumed_run_is_not_told_of_its_few_updates_again(run: Runner) -> None:
    first = run("train", *FEW, "--output", "run", "--time-limit", "1s")
    again = run("train", *FEW, "--output", "run", "--epochs", "4")

    assert (first.code, again.code) == (0, 0), first.err + again.err
    assert "only 6 updates" in first.out
    assert "only " not in again.out


def test_memorized_images_are_noted_once(run: Runner) -> None:
    ended = run("train", *MEMORIZED)

    assert ended.code == 0, ended.err
    [note] = [note for note in notes(ended) if "memorizes" in note]
    assert re.fullmatch(
        r"training accuracy (?:0\.9\d{3}|1\.0000), validation 0\.\d{4} after \d+ epochs: "
        r"the model memorizes the training images; "
        r"try --augment standard, --weight-decay 0\.002 \(now 0\.0005\), --label-smoothing 0\.1 or a larger --limit",
        note,
    )


@pytest.mark.parametrize(
    ("launcher", "processes"),
    [
        ("accel_train", 1),
        ("accel_train", 2),
        slow("accelerate", 1),
        slow("accelerate", 2),
        slow("torchrun", 2),
    ],
)
def test_divergence_ends_with_code_1_and_a_learning_rate(run: Runner, launcher: str, processes: int) -> None:
    ended = run("train", *DIVERGED, "--output", "run", launcher=launcher, processes=processes)

    assert ended.code == 1, ended.err
    ours = [line for line in ended.err.splitlines() if line.startswith(("error:", "hint:"))]
    assert len(ours) == 2, ended.err
    assert re.match(r"error: .* is not finite \(learning rate \S+\): found after update \d+, gradient norm ", ours[0])
    hint = re.match(r"hint: try --lr (\S+) \(learning rate so far at most \d+(\.\d+)?\)", ours[1])
    assert hint, ours[1]
    assert float(hint[1]) == 0.05 * processes  # the usual peak of the global batch


def test_learning_rate_of_the_hint_does_not_diverge(run: Runner) -> None:
    scaled = (*DIVERGED[:-4], "--lr", "3000", "--lr-scaling", "linear", "--lr-base-batch", "64")
    ended = run("train", *scaled, "--output", "diverged")
    assert ended.code == 1
    assert options(ended.err) == ["--max-lr", "0.05"]

    assert run("train", *scaled, *options(ended.err), "--output", "learns").code == 0


def test_first_update_is_not_blamed_on_the_learning_rate(run: Runner) -> None:
    Path(run.folder, "broken.py").write_text(NAN_IMAGES)
    ended = run("train", "--data", "broken:data", "--model", "mlp", "--workers", "0", "--device", "cpu")

    assert ended.code == 1, ended.err
    assert "the loss of update 1 is not finite" in ended.err
    assert (
        "hint: no update was made before, so the learning rate is not the cause: look for NaN in the images, "
        "and for overflow in --model mlp\n"
    ) in ended.err
