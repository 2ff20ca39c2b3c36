"""The state of a checkpoint is read back, and one that somebody has made is refused by its field."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.descriptions import CONTENTS
from helpers.run_events import epoch_end

from accel_train.checkpoints.state_file import FORMAT, NAME, read_state
from accel_train.errors import UserError
from accel_train.training.state import TrainingState

STATE = TrainingState(50, 2, [1 / 3, 2.0, 0.0, 4.0], [(10, 20)], epoch_end(1), epoch_end(2), 61.7)
RECORD: dict[str, Any] = {
    **{"format": FORMAT, "position": STATE.as_record(), "nonce": "1f0a", "metrics_bytes": 900},
    **{"config": {"lr": 0.1}, "identity": {"threads": "1"}, "data": CONTENTS.as_record()},
    "scaler": {"scale": 65536.0, "growth_interval": 2000},
}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "update_000050"
    folder.mkdir()
    return folder


def write(checkpoint: Path, record: dict[str, Any]) -> None:
    (checkpoint / NAME).write_text(json.dumps(record))


def test_state_is_read_as_it_was_written(checkpoint: Path) -> None:
    write(checkpoint, RECORD)
    stored = read_state(checkpoint)
    assert (stored.position, stored.metrics_bytes, stored.data) == (STATE, 900, CONTENTS)
    assert stored.scaler == RECORD["scaler"]
    assert isinstance(stored.scaler["growth_interval"], int)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"format": 2}, "has format 2, this version reads 3"),
        ({"position": None}, "is damaged: position is None"),
        ({"position": {"update": -1}}, "is damaged: position.update is -1"),
        ({"position": {"update": "50"}}, "is damaged: position.update is '50'"),
        ({"position": {"update": 50, "best": {"epoch": 1}}}, "is damaged: position.best.update is missing"),
        ({"position": {"update": 50, "skipped": [[1, 2, 3]]}}, "is damaged: position.skipped.0"),
        ({"metrics_bytes": 1.5}, "is damaged: metrics_bytes is 1.5"),
        ({"nonce": "../x"}, "is damaged: nonce is '../x'"),
        ({"nonce": "a" * 99}, "is damaged: nonce is 'aaa"),
        ({"data": {"classes": [], "splits": {}}}, "is damaged: the splits are none instead of train and val"),
        ({"scaler": {"scale": float("nan")}}, "is damaged: scaler.scale"),
        ({"pickle": 1}, "is damaged: pickle is unknown"),
    ],
)
def test_value_that_cannot_be_right_is_refused(checkpoint: Path, changed: dict[str, Any], problem: str) -> None:
    write(checkpoint, RECORD | changed)
    with pytest.raises(UserError) as caught:
        read_state(checkpoint)
    assert caught.value.message.startswith(f"{checkpoint / NAME} {problem}")
    assert caught.value.hint == "give another checkpoint, or use the version of accel_train that wrote it"


def test_checkpoint_under_another_name_is_refused(checkpoint: Path) -> None:
    write(checkpoint, RECORD)
    renamed = checkpoint.rename(checkpoint.with_name("update_999999"))
    with pytest.raises(UserError) as caught:
        read_state(renamed)
    assert caught.value.message == f"{renamed} holds update 50"
    assert caught.value.hint == "give it back its name, or remove it"


def test_state_that_cannot_be_read_is_refused(checkpoint: Path) -> None:
    (checkpoint / NAME).mkdir()
    with pytest.raises(UserError, match="it is a folder"):
        read_state(checkpoint)
