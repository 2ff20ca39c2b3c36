"""Which trackers may be asked for."""

import importlib
import importlib.util
import typing

import pytest

from accel_train.config.options import TrainConfig
from accel_train.config.trackers import (
    TRACKERS,
    check_environment,
    check_installed,
    check_project,
    check_trackers,
    chosen,
)
from accel_train.errors import UserError


def test_each_tracker_is_chosen_once() -> None:
    assert TrainConfig(tracker=["csv,tensorboard", "csv"]).tracker == ("csv", "tensorboard", "csv")
    assert chosen(("csv", "tensorboard", "csv")) == ("csv", "tensorboard")
    assert chosen(None) == chosen(("none",)) == ()


def test_none_excludes_others() -> None:
    assert TrainConfig(tracker=["none"]).tracker == ("none",)
    with pytest.raises(UserError, match="--tracker none excludes all others"):
        TrainConfig(tracker=["none", "csv"])


def test_missing_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    check_installed(("csv", "none"))
    with pytest.raises(UserError) as refused:
        check_installed(("csv", "mlflow"))
    assert refused.value.message == "--tracker mlflow needs the package mlflow, which is not installed"
    assert refused.value.hint.startswith("pip install 'accel_train[mlflow]'")


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("", "WANDB_MODE is empty", "set it to online, offline, shared, disabled, dryrun, run, or unset it"),
        ("onlin", "WANDB_MODE is 'onlin'", "did you mean online?"),
        ("\x1b[31m", r"WANDB_MODE is '\x1b[31m'", "set it to online, "),
    ],
)
def test_wrong_environment_of_a_tracker_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str, message: str, hint: str
) -> None:
    monkeypatch.setenv("WANDB_MODE", value)
    check_environment(("csv", "none"))
    with pytest.raises(UserError) as refused:
        check_trackers(("csv", "wandb"), project_of=None)
    assert refused.value.message == f"--tracker wandb: the environment variable {message}"
    assert refused.value.hint.startswith(hint)
    monkeypatch.setenv("WANDB_MODE", "offline")
    check_environment(("wandb",))


def test_values_of_environment_variables_are_those_of_the_library() -> None:
    settings = importlib.import_module("wandb").Settings.model_fields
    for variable, values in TRACKERS["wandb"].variables.items():
        kind = settings[variable.removeprefix("WANDB_").lower()].annotation
        literal = next((each for each in typing.get_args(kind) if typing.get_args(each)), kind)
        assert set(values) == set(typing.get_args(literal)), variable


@pytest.mark.parametrize(
    ("trackers", "named"), [(None, "none"), (("none",), "none"), (("csv", "tensorboard"), "csv,tensorboard")]
)
def test_project_needs_a_tracker_that_has_projects(trackers: tuple[str, ...] | None, named: str) -> None:
    with pytest.raises(UserError) as refused:
        check_project(trackers)
    assert refused.value.message == (
        f"--tracker-project has no effect with --tracker {named}: only wandb, trackio, mlflow have projects"
    )
    check_project((*(trackers or ()), "mlflow"))


def test_project_in_a_file_is_kept_for_trackers_to_come() -> None:
    check_trackers(("csv",), project_of="config.yaml")
    check_trackers(("csv",), project_of=None)
    with pytest.raises(UserError, match="--tracker-project has no effect with --tracker csv"):
        check_trackers(("csv",), project_of="flag")
