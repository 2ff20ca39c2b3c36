"""A user's model that tells when a run has come to a phase, and makes this phase long."""

import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn

from accel_train.checkpoints import checkpointer, store

PHASE, SECONDS = os.environ["PHASE"], float(os.environ["PHASE_SECONDS"])
commit, write_weights = store.commit, checkpointer._write_weights


def reach(phase: str) -> None:
    """Make the phase long that the test asks for, the first time, and tell that it has begun."""
    told = Path(f"{phase}_{os.environ.get('RANK', '0')}")
    if phase == PHASE and not told.exists():
        told.touch()
        time.sleep(SECONDS)


def slow_commit(partial: Path) -> Path:
    reach("save")
    return commit(partial)


def slow_write_weights(weights: dict[str, Tensor], path: Path) -> None:
    if path.name == "model.safetensors":
        reach("last save")
    write_weights(weights, path)


store.commit, checkpointer._write_weights = slow_commit, slow_write_weights


class Slow(nn.Sequential):
    updates = 0

    def forward(self, images: Tensor) -> Tensor:
        if self.training:
            self.updates += 1
            if self.updates == 13:
                reach("update")
        else:
            reach("validation")
        return super().forward(images)


def build(classes: int) -> nn.Module:
    reach("start-up")
    return Slow(nn.Flatten(), nn.Linear(64, classes))


torch.manual_seed(0)
