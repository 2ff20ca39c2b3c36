"""The configs of the commands: their fields, what a resume may change, and conflicts between panels."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from accel_train.checkpoints.run_folder import config_text
from accel_train.config.load import make_config, read_yaml
from accel_train.config.options import (
    EVERYDAY,
    FREE_ON_RESUME,
    FROM_RUN,
    PLACEMENT,
    EvaluateConfig,
    ResolvedConfig,
    TrainConfig,
    changed_fields,
)
from accel_train.errors import UserError


def read_back(path: Path, text: str) -> TrainConfig:
    path.write_text(text, encoding="utf-8")
    return make_config(TrainConfig, read_yaml(path, set(TrainConfig.model_fields)), {})


def test_placement_is_every_field_that_leaves_the_result_unchanged() -> None:
    hardware = {"processes", "device", "backend", "timeout", "threads"}
    strategy = {"strategy", "shard_size", "activation_checkpointing"}
    strategy |= {"pipeline_stages", "pipeline_schedule", "pipeline_split"}
    others = {"workers", "cache", "output", "accumulate", "resume", "time_limit", "profile"}
    assert hardware | strategy | others == PLACEMENT


def test_resume_may_change_placement_epochs_and_how_a_run_is_logged_and_saved() -> None:
    others = {"epochs", "data_dir", "log_every", "rank_lines", "watch_every", "save_every", "keep", "on_nan", "report"}
    others |= {"max_pixels", "tracker", "tracker_project"}
    assert PLACEMENT | others == FREE_ON_RESUME


def test_everyday_fields_are_fields() -> None:
    assert {"data", "epochs", "lr"} < EVERYDAY < set(TrainConfig.model_fields)


@pytest.mark.parametrize("conflict", ["compile", "cudnn_benchmark"])
def test_exact_is_refused_with_what_changes_last_bits(conflict: str) -> None:
    with pytest.raises(UserError) as caught:
        TrainConfig(exact=True, **{conflict: True})  # type: ignore[arg-type]
    assert caught.value.message.startswith(f"--exact does not work with --{conflict.replace('_', '-')}")
    assert caught.value.hint


def test_activation_checkpointing_is_refused_with_the_compiler() -> None:
    with pytest.raises(UserError) as caught:
        TrainConfig(activation_checkpointing=True, compile=True)
    assert caught.value.message == "--activation-checkpointing does not work with --compile yet"


def test_config_of_a_run_reads_back_unchanged(tmp_path: Path) -> None:
    given = TrainConfig(
        data="Bilder: Köln #1, [rot] 'x' \"y\" 猫",
        data_dir=Path("~"),
        model="null",
        lr=1e-05,
        lr_scaling="linear",
        weight_decay=0.0,
        schedule="step",
        milestones=(30, 60.5),
        gamma=0.3,
        seed=2**63 - 1,
        epochs=7,
    )
    text = config_text(given.model_dump(), {"lr": "flag", "gamma": "a: b # c.yaml"}, PLACEMENT)
    assert read_back(tmp_path / "config.yaml", text) == given
    assert "lr: 1.0e-05  # flag\n" in text
    assert "gamma: 0.3  # a: b # c.yaml\n" in text
    assert "epochs: 7  # default\n" in text


def test_placement_is_commented_out_in_the_config_of_a_run(tmp_path: Path) -> None:
    placed = TrainConfig(
        processes=4, device="cpu", workers="3", accumulate=2, output=Path("a\nb"), backend="gloo", lr=2
    )
    text = config_text(placed.model_dump(), {}, PLACEMENT)
    assert read_back(tmp_path / "config.yaml", text) == TrainConfig(lr=2)
    assert "# processes: 4  # default\n" in text


def test_resolved_config_has_the_fields_of_a_train_config_and_requires_those_with_defaults() -> None:
    assert ResolvedConfig.model_fields.keys() == TrainConfig.model_fields.keys()
    required: dict[str, Any] = {
        **{"model": "cnn", "epochs": 1, "augment": "none", "batch_size": 4, "warmup_epochs": 0.2, "lr": 0.1},
        **{"optimizer": "sgd", "lr_scaling": "none", "weight_decay": 0.0, "precision": "fp32"},
    }
    assert ResolvedConfig(**required).epochs == 1
    for name in required:
        with pytest.raises(ValidationError, match=name):
            ResolvedConfig(**{key: value for key, value in required.items() if key != name})


def test_defaults_of_pictures_that_a_run_has_stored_are_not_shown_as_changed() -> None:
    stored = dict.fromkeys(("data", "fit", "eval_crop"), FROM_RUN)
    assert changed_fields(TrainConfig(data="pics", fit="crop", eval_crop=0.875), stored) == ("data",)
    assert changed_fields(TrainConfig(data="pics", eval_crop=0.95), stored) == ("data", "eval_crop")
    typed = {"fit": "flag", "eval_crop": "flag"}
    assert changed_fields(TrainConfig(fit="crop", eval_crop=0.875), typed) == ("fit", "eval_crop")


def test_evaluation_uses_the_data_of_the_run_by_default() -> None:
    assert EvaluateConfig().data is None
    assert EvaluateConfig().weights is None
