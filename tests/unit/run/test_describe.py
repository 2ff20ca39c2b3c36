"""config.yaml holds every value with its origin, including those that data, model, launcher and search decided."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from helpers.plans import small_plan

from accel_train.config.options import ResolvedConfig
from accel_train.run.describe import config_text

RESOLVED: dict[str, Any] = {
    **{"model": "mlp", "epochs": 2, "augment": "none", "batch_size": 4, "warmup_epochs": 0.4, "lr": 0.1},
    **{"optimizer": "sgd", "lr_scaling": "none", "weight_decay": 0.0, "precision": "fp32"},
}


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCELERATE_MIXED_PRECISION", "TORCHELASTIC_RUN_ID", "ACCEL_TRAIN_LAUNCHER_PID"):
        monkeypatch.delenv(name, raising=False)


def text_of(origins: dict[str, str] | None = None, **given: Any) -> list[str]:
    """Return the lines of the config.yaml of a run with batches of 2 × 8 on one process."""
    run: Any = SimpleNamespace(
        config=ResolvedConfig(**RESOLVED | given),
        origins=origins or {},
        plan=small_plan(batch_size=2, accumulate=8),
        built=SimpleNamespace(image_size=8),
    )
    return config_text(run).splitlines()


def test_values_that_were_not_given_are_those_of_the_run() -> None:
    lines = text_of({"lr": "flag", "epochs": "--config run.yaml"}, batch_size=2)
    for line in (
        "lr: 0.1  # flag",
        "epochs: 2  # --config run.yaml",
        "global_batch_size: 16  # batch size 2 × processes 1 × accumulate 8",
        "image_size: 8  # as data, model and weights have it",
        "precision: fp32  # default",
        "# processes: 1  # accel_train",
        "# accumulate: 8  # global batch size / (batch size × processes)",
    ):
        assert line in lines
    loaded = yaml.safe_load("\n".join(lines))
    assert (loaded["global_batch_size"], loaded["milestones"]) == (16, None)
    assert "processes" not in loaded  # the file starts the same run on any hardware


def test_given_values_are_kept() -> None:
    lines = text_of({"processes": "flag"}, batch_size=2, global_batch_size=16, processes=1, output=Path("runs/a"))
    assert "global_batch_size: 16  # default" in lines
    assert "# processes: 1  # flag" in lines
    assert "# output: runs/a  # default" in lines


def test_search_overrides_given_batch_sizes() -> None:
    lines = text_of({"batch_size": "flag", "accumulate": "flag"}, auto_micro_batch=True, batch_size=4, accumulate=4)
    assert "batch_size: 2  # --auto-micro-batch" in lines
    assert "# accumulate: 8  # global batch size / (batch size × processes)" in lines


def test_precision_of_the_launcher_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert "precision: bf16  # launcher" in text_of(precision="bf16")
    assert "precision: bf16  # flag" in text_of({"precision": "flag"}, precision="bf16")
