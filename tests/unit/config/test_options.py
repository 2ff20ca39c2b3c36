"""Configs are read, checked and refused by file, key and value."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from accel_train.checkpoints.run_folder import config_text
from accel_train.config.load import make_config, read_yaml
from accel_train.config.options import PLACEMENT, EvaluateConfig, TrainConfig
from accel_train.errors import UserError

FIELDS = set(TrainConfig.model_fields)


def from_file(path: Path, text: str) -> TrainConfig:
    path.write_text(text, encoding="utf-8")
    values = read_yaml(path, FIELDS)
    return make_config(TrainConfig, values, dict.fromkeys(values, str(path)))


def refusal(**given: Any) -> UserError:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, given, dict.fromkeys(given, "flag"))
    return caught.value


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "'1e-3'", "1E-03"])
def test_a_number_in_scientific_form_is_a_number(tmp_path: Path, text: str) -> None:
    """k01: YAML 1.1 reads 1e-3 as text."""
    lr = from_file(tmp_path / "c.yaml", f"lr: {text}\n").lr
    assert isinstance(lr, float)
    assert lr == 0.001


@pytest.mark.parametrize("text", ["1e-3x", "'1e-3x'", "[0.1]", "2024-01-02"])
def test_what_is_no_number_is_refused_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(UserError) as caught:
        from_file(path, f"lr: {text}\n")
    assert caught.value.message.startswith("--lr ")
    assert f" in {path}: input should be a valid number" in caught.value.message
    assert caught.value.hint == f"--lr: {TrainConfig.model_fields['lr'].description}"


@pytest.mark.parametrize("lr", [0, -1, float("nan"), float("inf"), float("-inf"), "nan", "inf", "0.0"])
def test_a_learning_rate_that_trains_nothing_is_refused(lr: float | str) -> None:
    assert refusal(lr=lr).message.startswith(f"--lr {lr}: input should be")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("batch_size", 0),
        ("batch_size", 2.5),
        ("accumulate", -1),
        ("workers", -1),
        ("workers", 2.5),
        ("workers", "some"),
        ("workers", True),
        ("cache", "disk"),
        ("seed", -1),
        ("seed", 2**63),
        ("val_fraction", 0),
        ("val_fraction", 1),
        ("label_smoothing", 1),
        ("weight_decay", -1e-9),
        ("gamma", 1),
        ("clip_norm", 0),
        ("optimizer", "lamb"),
        ("precision", "int8"),
        ("milestones", ["x"]),
        ("timeout", 0),
    ],
)
def test_values_out_of_bounds_are_refused_by_their_flag(name: str, value: Any) -> None:
    assert refusal(**{name: value}).message.startswith(f"--{name.replace('_', '-')} ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "step"}, "--schedule step has no milestones"),
        ({"schedule": "step", "milestones": []}, "--schedule step has no milestones"),
        ({"milestones": [30]}, "--milestones has no effect with --schedule cosine"),
        ({"schedule": "linear", "gamma": 0.5}, "--gamma has no effect with --schedule linear"),
        ({"lr_scaling": "none", "lr_base_batch": 64}, "--lr-base-batch has no effect with --lr-scaling none"),
        ({"warmup_epochs": 0, "warmup_from": 0.1}, "--warmup-from has no effect with --warmup-epochs 0"),
        ({"exact": True, "cudnn_benchmark": True}, "--exact does not work with --cudnn-benchmark"),
        ({"exact": True, "compile": True}, "--exact does not work with --compile yet"),
    ],
)
def test_what_would_have_no_effect_is_refused(given: dict[str, Any], message: str) -> None:
    error = refusal(**given)
    assert error.message == message
    assert error.hint


def test_a_config_is_frozen_and_takes_no_unknown_field() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        TrainConfig().epochs = 3  # type: ignore[misc]
    with pytest.raises(ValidationError, match="Extra inputs"):
        TrainConfig(epochz=3)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("epochz", "did you mean epochs?"),
        ("batch-size", "did you mean batch_size?"),
        ("learning_rate_of_mine", "`accel_train train --help` lists the options"),
        ("7", "`accel_train train --help` lists the options"),
    ],
)
def test_an_unknown_key_names_the_file_and_a_near_key(tmp_path: Path, key: str, hint: str) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(UserError) as caught:
        from_file(path, f"lr: 0.1\n{key}: 3\n")
    shown = key if key == "7" else repr(key)
    assert (caught.value.message, caught.value.hint) == (f"unknown key {shown} in {path}", hint)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"lr: [1, 2\n", "is not YAML"),
        (b"lr: \xff\xfe\n", "is not YAML"),
        (b"lr: 2024-13-45\n", "is not YAML"),
        (b"- lr\n", "holds no `key: value` pairs"),
        (b"lr\n", "holds no `key: value` pairs"),
    ],
)
def test_a_file_that_is_no_mapping_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_yaml(path, FIELDS)
    assert caught.value.message.startswith(f"{path} {reason}")
    assert "\n" not in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_yaml(tmp_path / "none.yaml", FIELDS)
    assert caught.value.message == f"cannot read {tmp_path / 'none.yaml'}: No such file or directory"


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "lr: null\n"])
def test_nothing_chosen_is_the_default_config(tmp_path: Path, text: str) -> None:
    assert from_file(tmp_path / "c.yaml", text) == TrainConfig()


def test_a_runs_config_reads_back_as_the_same_config(tmp_path: Path) -> None:
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
    assert from_file(tmp_path / "config.yaml", text) == given
    assert "lr: 1.0e-05  # flag\n" in text
    assert "gamma: 0.3  # a: b # c.yaml\n" in text
    assert "epochs: 7  # default\n" in text


def test_what_only_places_a_run_is_a_comment_in_its_config(tmp_path: Path) -> None:
    placed = TrainConfig(processes=4, device="cpu", workers=3, accumulate=2, output=Path("a\nb"), backend="gloo", lr=2)
    text = config_text(placed.model_dump(), {}, PLACEMENT)
    assert from_file(tmp_path / "config.yaml", text) == TrainConfig(lr=2)
    assert "# processes: 4  # default\n" in text


def test_evaluation_reads_the_runs_own_data_unless_told_otherwise() -> None:
    assert EvaluateConfig().data is None
    assert make_config(EvaluateConfig, {"weights": "best"}, {}).weights == "best"
    with pytest.raises(UserError, match="--weights newest"):
        make_config(EvaluateConfig, {"weights": "newest"}, {})
