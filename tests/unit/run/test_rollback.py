"""A rollback loads the last checkpoint and skips the data since; a fourth one to the same checkpoint is refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from accel_train.run import rollback as module
from accel_train.run.rollback import Rollback
from accel_train.training.metrics import Sums
from accel_train.training.nonfinite import Diverged
from accel_train.training.state import TrainingState

DIVERGED = Diverged("the loss of update 19 is not finite", "lower --lr")
STORED = TrainingState(update=10, epochs=1, epoch_sums=[1.0, 2.0, 3.0, 4.0])


class Rolled:
    """A rollback of a run whose newest checkpoint is `checkpoint`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, checkpoint: str | None, is_main: bool = True) -> None:
        self.checkpoint = Path(checkpoint) if checkpoint else None
        self.restored: list[Path] = []
        self.sums = Sums(torch.device("cpu"))
        self.sums.load([9.0] * 4)
        run: Any = SimpleNamespace(
            resume_point=SimpleNamespace(folder=Path("run")),
            processes=SimpleNamespace(is_main=is_main),
            training=SimpleNamespace(updater=SimpleNamespace(epoch_sums=self.sums)),
        )
        monkeypatch.setattr(module, "newest_checkpoint", lambda run, folder: (self.checkpoint, []))
        monkeypatch.setattr(module, "restore", self.restore)
        self.rollback = Rollback(run, trained=None)  # type: ignore[arg-type]

    def restore(self, run: Any, trained: Any, checkpoint: Path) -> SimpleNamespace:
        self.restored.append(checkpoint)
        return SimpleNamespace(position=STORED)


def test_updates_since_the_checkpoint_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    rolled, state = Rolled(monkeypatch, "update_000010"), TrainingState(update=20, epochs=1)
    notice = rolled.rollback(state, DIVERGED)
    assert notice.text == (
        "the loss of update 19 is not finite: rolled back to update_000010, skipping the updates 11 to 20"
    )
    assert (state.update, state.epochs, state.skipped) == (20, 1, [(10, 20)])
    assert rolled.restored == [Path("update_000010")]


@pytest.mark.parametrize(
    ("epochs", "is_main", "sums"),
    [
        (1, True, STORED.epoch_sums),
        (1, False, [0.0] * 4),  # the stored sums are those of all ranks
        (2, True, [0.0] * 4),  # the rest of that epoch is skipped
    ],
)
def test_metric_sums_are_those_of_the_checkpoint_on_rank_0(
    monkeypatch: pytest.MonkeyPatch, epochs: int, is_main: bool, sums: list[float]
) -> None:
    rolled = Rolled(monkeypatch, "update_000010", is_main)
    rolled.rollback(TrainingState(update=20, epochs=epochs), DIVERGED)
    assert rolled.sums.tensor.tolist() == sums


def test_fourth_rollback_to_the_same_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    rolled = Rolled(monkeypatch, "update_000010")
    for update in (20, 30, 40):
        rolled.rollback(TrainingState(update=update, epochs=1), DIVERGED)
    with pytest.raises(Diverged) as refused:
        rolled.rollback(TrainingState(update=50, epochs=1), DIVERGED)
    assert refused.value.message == "the loss of update 19 is not finite; 3 rollbacks to it did not help"
    assert refused.value.hint == "lower --lr"
    rolled.checkpoint = Path("update_000060")
    rolled.rollback(TrainingState(update=70, epochs=1), DIVERGED)


def test_without_checkpoint_the_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rolled = Rolled(monkeypatch, None)
    with pytest.raises(Diverged, match="not finite; nothing has been saved yet"):
        rolled.rollback(TrainingState(update=5), DIVERGED)
    assert rolled.restored == []
