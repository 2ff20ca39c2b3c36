"""A killed run remembers the images seen, the best epoch and the patience left."""

import json
from itertools import chain
from pathlib import Path

import pytest
from helpers.faults import ON_CPU, finished, started
from helpers.runner import read_metrics

WORDS = ("--data", "noting:data", "--model", "noting:net", "--workers", "0", *ON_CPU)
NOTING = """
import json, os
from pathlib import Path
import torch
from torch import nn

class Pixels:
    '''Image i has one bright pixel, number i.'''
    classes = ("a", "b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        image = torch.zeros(64, dtype=torch.uint8)
        image[i] = 200
        return image.view(1, 8, 8), i % 2

class Noting(nn.Sequential):
    '''Records the images that it is trained on; only the first epoch improves it.'''

    def forward(self, images):
        logits = super().forward(images)
        if self.training:
            with open("seen_" + os.environ.get("RANK", "0"), "a") as file:
                file.write(json.dumps(images.flatten(1).argmax(1).tolist()) + "\\n")
            return logits
        right = torch.eye(2)[images.flatten(1).argmax(1) % 2]
        return right if self[1].num_batches_tracked <= 8 else 1 - right

def data():
    return Pixels(), Pixels()

def net(classes):
    return Noting(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, classes))
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("noting.py").write_text(NOTING)


def take_notes(processes: int) -> list[list[int]]:
    """Return the sorted images of each update, as the ranks recorded them, and delete the records."""
    by_rank = []
    for rank in range(processes):
        file = Path(f"seen_{rank}")
        by_rank.append([json.loads(line) for line in file.read_text().splitlines() if line.endswith("]")])
        file.unlink()
    return [sorted(chain(*parts)) for parts in zip(*by_rank, strict=False)]


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_killed_epoch_sees_every_image_once(processes: int, tmp_path: Path) -> None:
    words = (*WORDS, "--batch-size", "4", "--global-batch-size", "8", "--processes", str(processes))
    words = (*words, "--epochs", "20", "--save-every", "5updates")
    finished(tmp_path, "--output", "unbroken", *words)
    unbroken = take_notes(processes)
    with started(tmp_path, "--output", "run", *words) as program:
        program.wait_for(lambda: program.saved() > 0)
    before = take_notes(processes)
    resumed = finished(tmp_path, "--output", "run", *words).resumed()
    assert resumed % 8, "this is between epochs"
    parts = 2 // processes  # micro-batches of an update
    seen = before[: parts * resumed] + take_notes(processes)
    assert seen == unbroken
    for epoch in range(20):
        assert sorted(chain(*seen[parts * 8 * epoch : parts * 8 * (epoch + 1)])) == list(range(64))


def test_best_epoch_and_patience_survive_a_kill(tmp_path: Path) -> None:
    words = ("--output", "run", *WORDS, "--batch-size", "8", "--epochs", "99", "--patience", "30")
    with started(tmp_path, *words) as program:
        program.wait_for(lambda: program.saved() >= 16)
    best = Path("run/best.safetensors").read_bytes()
    program = finished(tmp_path, *words)
    assert 16 <= program.resumed() < 31 * 8
    assert Path("run/best.safetensors").read_bytes() == best
    epochs = read_metrics(Path("run"), "epoch")
    assert [(record["best"], record["val_accuracy"]) for record in epochs] == [(True, 1.0)] + [(False, 0.0)] * 30
    assert "no better epoch for 30\n" in program.out
