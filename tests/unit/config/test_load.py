"""Configs are read from YAML and options; errors name the file, the key and the value."""

import os
from pathlib import Path
from typing import Any

import pytest

from accel_train.config.fields import help_of
from accel_train.config.load import make_config, read_config, read_yaml
from accel_train.config.options import EvaluateConfig, ResolvedConfig, TrainConfig
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


@pytest.mark.parametrize("text", ["one", "'1e'", "[0.1]", "2024-01-02"])
def test_invalid_number_is_refused_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(UserError) as caught:
        from_file(path, f"lr: {text}\n")
    assert caught.value.message.startswith("--lr ")
    assert f" in {path}: must be a number" in caught.value.message
    assert caught.value.hint == f"--lr: {help_of(TrainConfig, 'lr')}"


def test_invalid_option_is_refused_with_the_nearest_value() -> None:
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, {"batch_size": 0}, {"batch_size": "flag"})
    assert caught.value.message == "--batch-size 0: must be greater than 0"
    assert caught.value.hint == "use --batch-size 1 or more"


def test_conflict_with_a_file_names_the_file() -> None:
    origins = {"schedule": "mine.yaml", "gamma": "flag"}
    with pytest.raises(UserError) as caught:
        make_config(TrainConfig, {"schedule": "linear", "gamma": 0.5}, origins)
    assert caught.value.message.endswith("--schedule step, not linear (flags and mine.yaml together)")


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("epochz", "did you mean epochs?"),
        ("batch-size", "did you mean batch_size?"),
        ("learning_rate_of_mine", "see accel_train train --help-all"),
        ("7", "see accel_train train --help-all"),
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
        (b"lr: !!python/object/apply:os.system [ls]\n", "is not YAML: line 1: could not determine a constructor"),
        (b"lr: 1\nseed: 2\nlr: 3\n", "is not YAML: 'lr' is there twice"),
        (b"lr: {a: 1}\n", "is not YAML: 'lr' is neither a value nor a list of values"),
        (b"milestones: [[1], 2]\n", "is not YAML: 'milestones' is neither a value nor a list of values"),
        (b"? [a, b]\n: 1\n", "is not YAML: "),
        (b"lr: " + b"[" * 20_000, "is not YAML: "),
        (b"lr: " + b"1" * 9000, "is not YAML: Exceeds the limit"),
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


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("first", "item"),
    [("a0: &a0 [x, x]", "a{0}: &a{0} [*a{1}, *a{1}]"), ("a0: &a0 {k: 1}", "a{0}: &a{0} {{<<: [*a{1}, *a{1}]}}")],
    ids=["alias", "merge"],
)
def test_small_file_that_becomes_endless_is_refused(tmp_path: Path, first: str, item: str) -> None:
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join([first, *(item.format(n, n - 1) for n in range(1, 60)), "lr: *a59"]))
    with pytest.raises(UserError, match="is neither a value nor a list of values"):
        read_yaml(path, FIELDS)


@pytest.mark.timeout(10)
def test_file_that_never_ends_or_is_too_large_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * 70_000)
    for name, reason in (("fifo.yaml", "it is a FIFO"), ("large.yaml", "it has 70,000 bytes, more than 65,536")):
        with pytest.raises(UserError) as caught:
            read_yaml(tmp_path / name, FIELDS)
        assert caught.value.message == f"cannot read {tmp_path / name}: {reason}"


def test_output_of_a_command_is_read() -> None:
    """As in ``--config <(command)``."""
    reader, writer = os.pipe()
    os.write(writer, b"epochs: 3")
    os.close(writer)
    assert read_yaml(Path(f"/dev/fd/{reader}"), FIELDS) == {"epochs": 3}
    os.close(reader)


@pytest.mark.parametrize("text", ["lr: 0x" + "f" * 5000, "lr: " + "x" * 5000, "batch_size: [" + "1, " * 5000 + "1]"])
def test_long_value_is_shortened(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError) as caught:
        from_file(tmp_path / "c.yaml", text)
    assert len(caught.value.message) < 500


def test_stored_config_is_checked_and_named(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("epochs: 3\nbatch_size: 8\n")
    assert read_config(path, TrainConfig) == TrainConfig(epochs=3, batch_size=8)
    for text, message in (
        ("batch_size: 0", f"--batch-size 0 in {path}: must be greater than 0"),
        ("schedule: step", f"--schedule step has no milestones (in {path})"),
    ):
        path.write_text(text)
        with pytest.raises(UserError) as caught:
            read_config(path, TrainConfig)
        assert caught.value.message == message
    path.write_text("epochs: 3")
    with pytest.raises(UserError, match=f"--augment is missing in {path}") as missing:
        read_config(path, ResolvedConfig)
    assert missing.value.hint.startswith("--augment: Augmentation level")


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
