"""Configs are read from YAML and options; errors name the file, the key and the value."""

from pathlib import Path
from typing import Any

import pytest

from accel_train.config.fields import help_of
from accel_train.config.load import make_config, read_yaml
from accel_train.config.options import EvaluateConfig, TrainConfig
from accel_train.errors import UserError

FIELDS = set(TrainConfig.model_fields)


def from_file(path: Path, text: str) -> TrainConfig:
    path.write_text(text, encoding="utf-8")
    values = read_yaml(path, FIELDS)
    return make_config(TrainConfig, values, dict.fromkeys(values, str(path)))


@pytest.mark.parametrize("text", ["1e-3", "1.0e-3", "0.001", "'1e-3'", "1E-03"])
def test_scientific_notation_is_a_number(tmp_path: Path, text: str) -> None:
    """YAML 1.1 reads 1e-3 as text."""
    lr = from_file(tmp_path / "c.yaml", f"lr: {text}\n").lr
    assert isinstance(lr, float)
    assert lr == 0.001


@pytest.mark.parametrize("text", ["1e-3x", "'1e-3x'", "[0.1]", "2024-01-02"])
def test_invalid_number_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(UserError) as caught:
        from_file(path, f"lr: {text}\n")
    assert caught.value.message.startswith("--lr ")
    assert f" in {path}: input should be a valid number" in caught.value.message
    assert caught.value.hint == f"--lr: {help_of(TrainConfig, 'lr')}"


def test_invalid_option_is_refused_with_its_help() -> None:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, {"batch_size": 0}, {"batch_size": "flag"})
    assert caught.value.message == "--batch-size 0: input should be greater than 0"
    assert caught.value.hint == f"--batch-size: {help_of(TrainConfig, 'batch_size')}"


def test_conflict_with_a_file_names_the_file() -> None:
    origins = {"schedule": "mine.yaml", "gamma": "flag"}
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, {"schedule": "linear", "gamma": 0.5}, origins)
    assert caught.value.message.endswith("--schedule linear (flags and mine.yaml together)")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("epochz", "did you mean epochs?"),
        ("batch-size", "did you mean batch_size?"),
        ("learning_rate_of_mine", "`accel_train train --help-all` lists the options"),
        ("7", "`accel_train train --help-all` lists the options"),
    ],
)
def test_unknown_key_is_refused_with_its_file_and_a_similar_key(tmp_path: Path, key: str, hint: str) -> None:
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
        (b"- lr\n", "has no `key: value` pairs"),
        (b"lr\n", "has no `key: value` pairs"),
    ],
)
def test_file_that_is_not_a_mapping_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        read_yaml(path, FIELDS)
    assert caught.value.message.startswith(f"{path} {reason}")
    assert "\n" not in caught.value.message


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        read_yaml(tmp_path / "none.yaml", FIELDS)
    assert caught.value.message == f"cannot read {tmp_path / 'none.yaml'}: No such file or directory"


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "lr: null\n"])
def test_empty_file_is_the_default_config(tmp_path: Path, text: str) -> None:
    assert from_file(tmp_path / "c.yaml", text) == TrainConfig()


def test_evaluate_config_is_made_alike() -> None:
    assert make_config(EvaluateConfig, {"weights": "best"}, {}).weights == "best"
    with pytest.raises(UserError, match="--weights newest"):
        make_config(EvaluateConfig, {"weights": "newest"}, {})


def test_none_is_the_default() -> None:
    given: dict[str, Any] = {"lr": None, "epochs": 3}
    assert make_config(TrainConfig, given, {}) == TrainConfig(epochs=3)
