"""Templates of job files: every value is quoted for the language in which it stands."""

import ast
import shlex

import pytest
import yaml

from accel_train.jobs.render import literal, shell_command

HOSTILE = [
    "plain",
    "two words",
    "it's",
    'say "x"',
    "$(reboot)",
    "`x`",
    "a\\b",
    "# no comment",
    "-1",
    "true",
    "ü→😀",
    "a\nb",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_literal_is_the_same_text_in_python_and_yaml(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text
    assert yaml.safe_load(literal(text)) == text


def test_literal_of_other_values_is_python() -> None:
    assert literal(("a", "b")) == '["a", "b"]'
    assert [literal(value) for value in (True, None, 3)] == ["True", "None", "3"]


@pytest.mark.parametrize("text", HOSTILE)
def test_shell_command_keeps_its_words(text: str) -> None:
    words = ["srun", "accel_train", "--data", text, "--exact", "--model", text * 30]
    assert shlex.split(shell_command(words).replace(" \\\n", " ")) == words


def test_long_command_has_a_line_for_each_option() -> None:
    assert shell_command(["srun", "accel_train", "--exact"]) == "srun accel_train --exact"
    long = shell_command(["srun", "accel_train", "--data", "x" * 90, "--exact"])
    assert long.splitlines() == ["srun accel_train \\", f"    --data {'x' * 90} \\", "    --exact"]
