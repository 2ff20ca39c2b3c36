"""config.yaml is read back with the origin of each value."""

from pathlib import Path

import pytest

from accel_train.checkpoints.run_folder import config_text
from accel_train.errors import UserError
from accel_train.history.config_file import Setting, read_settings

VALUES = {
    "data": "a # b: c",
    "seed": 0,
    "lr": 1e-05,
    "color_jitter": (0.1, 0.0),
    "labels": None,
    "exact": False,
    "model": "no",
    "output": "two\nlines",
    "workers": "4",
}


def test_values_and_origins_are_those_that_were_written(tmp_path: Path) -> None:
    origins = {"data": "flag", "seed": "my #1 file.yaml", "workers": "flag"}
    (tmp_path / "config.yaml").write_text(config_text(VALUES, origins, frozenset({"workers"})), encoding="utf-8")
    expected = {name: list(value) if isinstance(value, tuple) else value for name, value in VALUES.items()}
    found = read_settings(tmp_path)
    assert {name: setting.value for name, setting in found.items()} == expected
    assert list(found) == list(VALUES)
    assert found["seed"] == Setting(0, "my #1 file.yaml")
    assert found["workers"] == Setting("4", "flag")
    assert found["model"] == Setting("no", "default")


def test_edited_line_has_no_origin(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 5\n", encoding="utf-8")
    assert read_settings(tmp_path) == {"seed": Setting(5, "")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "config.yaml has no `key: value` pairs"),
        ("a: {b: 1}\n", "config.yaml is damaged: a is neither a value nor a list of values"),
        ("a: [&x [1], *x]\n", "config.yaml is damaged: a is neither a value nor a list of values"),
        ("a: [1,\n", "config.yaml is damaged: while parsing"),
        ("a: !!python/object:os.system 1\n", "config.yaml is damaged: could not determine a constructor"),
    ],
)
def test_damaged_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read_settings(tmp_path)
    assert message in caught.value.message
    assert caught.value.hint == "give the folder of a run, such as one of runs/*"


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*config\.yaml: No such file or directory"):
        read_settings(tmp_path)
