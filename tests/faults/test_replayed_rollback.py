"""Updates around a rollback are replayed as they were: those that it skipped, and those after them."""

import pytest
from helpers.runner import Ended, Runner

from accel_train.data.sampler import ImageOrder

FRAGILE = """
import torch
from torch import nn

class Images:
    classes = ("a", "b")

    def __init__(self, ids):
        self.ids = ids

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        image = torch.randint(200, (1, 8, 8), generator=torch.Generator().manual_seed(self.ids[i]), dtype=torch.uint8)
        return image.fill_(50) if self.ids[i] == POISON else image, i % 2

class Fragile(nn.Sequential):
    '''Returns NaN for an image whose pixels are all equal.'''

    def forward(self, images):
        alike = images.amax((1, 2, 3)) == images.amin((1, 2, 3))
        return super().forward(images) * torch.where(alike, float("nan"), 1.0)[:, None]

def data():
    return Images(range(64)), Images(range(100, 120))

def net(classes):
    return Fragile(nn.Flatten(), nn.Linear(64, classes))
"""
CODE = ("--data", "fragile:data", "--model", "fragile:net", "--workers", "0")


def replay(run: Runner, update: int) -> Ended:
    return run("replay", "run", "--update", str(update), *CODE)


@pytest.mark.slow
def test_updates_around_a_rollback_are_reproduced(run: Runner) -> None:
    image = ImageOrder(0, 64).sample_indices(0)[4 * 8]  # of update 5
    (run.folder / "fragile.py").write_text(f"POISON = {image}\n{FRAGILE}")
    words = ("--batch-size", "8", "--epochs", "1", "--log-every", "2", "--save-every", "2updates", "--keep", "9")
    trained = run("train", *CODE, *words, "--augment", "none", "--on-nan", "rollback", "--output", "run")
    assert trained.code == 0, trained.err
    assert "rolled back to update_000004, skipping the updates 5 to 6" in trained.out
    skipped = replay(run, 5)
    assert skipped.code == 0, skipped.err
    lines = skipped.out.splitlines()
    assert lines[0] == "run: computed updates 5 to 6 from checkpoint update_000004"
    assert lines[1].endswith("loss nan, gradient norm nan")
    assert "  loss           equal at update 6" in lines
    after = replay(run, 7)
    assert after.code == 0, after.out + after.err
    assert after.out.splitlines()[0] == "run: computed updates 5 to 8 from checkpoint update_000004"
    assert "  weights        equal at update 8" in after.out.splitlines()
