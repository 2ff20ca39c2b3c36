"""The help of every command equals its file in help/, and `train --help` shows everyday options only.

After a change of options, write the files again and look at the difference:

    ACCEL_TRAIN_WRITE_HELP=1 pytest tests/cli/test_help.py
"""

import os
import re
from pathlib import Path

import pytest
from helpers.cli import Call, in_process

FOLDER = Path(__file__).parent / "help"
COMMANDS = {
    "accel_train": ("--help",),
    "train": ("train", "--help"),
    "train_all": ("train", "--help-all"),
    "evaluate": ("evaluate", "--help"),
    "predict": ("predict", "--help"),
    "export": ("export", "--help"),
    "bench": ("bench", "--help"),
    "pack": ("pack", "--help"),
    "check": ("check", "--help"),
    "preview": ("preview", "--help"),
    "plan": ("plan", "--help"),
    "schedule": ("schedule", "--help"),
    "find_lr": ("find-lr", "--help"),
    "doctor": ("doctor", "--help"),
    "report": ("report", "--help"),
    "runs": ("runs", "--help"),
    "compare": ("compare", "--help"),
    "replay": ("replay", "--help"),
    "job": ("job", "--help"),
    "job_slurm": ("job", "slurm", "--help"),
    "job_kubernetes": ("job", "kubernetes", "--help"),
    "job_sagemaker": ("job", "sagemaker", "--help"),
    "job_hf": ("job", "hf", "--help"),
    "recipes": ("recipes", "--help"),
}
MAX_OPTIONS = 25


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


def shown(call: Call, *arguments: str, columns: int = 100) -> str:
    ended = call(*arguments, COLUMNS=str(columns), NO_COLOR="1", TERM="dumb")
    assert (ended.code, ended.err) == (0, "")
    without_styles = re.sub(r"\x1b\[[0-9;]*m", "", ended.out)
    return "\n".join(line.rstrip() for line in without_styles.strip("\n").splitlines()).strip("\n") + "\n"


def options_in(help_text: str) -> list[str]:
    return re.findall(r"^│ (--[a-z0-9-]+)", help_text, re.M)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_equals_its_file(call: Call, name: str) -> None:
    text, path = shown(call, *COMMANDS[name]), FOLDER / f"{name}.txt"
    if os.environ.get("ACCEL_TRAIN_WRITE_HELP"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), (
        f"the help of {name} has changed; if that is meant, run ACCEL_TRAIN_WRITE_HELP=1 pytest {Path(__file__).name}"
    )


def test_help_files_are_those_of_the_commands() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == COMMANDS.keys()


def test_train_help_shows_everyday_options_and_names_help_all(call: Call) -> None:
    text = shown(call, "train", "--help")
    assert {"--data", "--model", "--epochs", "--lr", "--processes", "--help-all"} <= set(options_in(text))
    assert len(options_in(text)) <= MAX_OPTIONS
    assert "train --help-all" in text.splitlines()[-1]


def test_help_all_shows_the_everyday_options_and_all_others(call: Call) -> None:
    everyday, everything = (options_in(shown(call, "train", option)) for option in ("--help", "--help-all"))
    assert set(everyday) < set(everything)
    assert {"--ema", "--quiet", "--on-nan", "--keep"} <= set(everything) - set(everyday)
    assert options_in(shown(call, "train", "--help")) == everyday  # --help-all leaves no trace


def test_option_that_help_hides_works(call: Call) -> None:
    ended = call("train", "--timeout", "0")
    assert ended.code == 2
    assert "--timeout 0: " in ended.err


@pytest.mark.parametrize("name", COMMANDS)
def test_names_of_options_are_whole_on_80_columns(call: Call, name: str) -> None:
    wide, narrow = (options_in(shown(call, *COMMANDS[name], columns=columns)) for columns in (160, 80))
    assert narrow == wide
