"""Options that a run refuses once it is started are found, and so are data that are not on this host."""

from pathlib import Path
from typing import Any

import pytest

from accel_train.config.doctor_options import DoctorConfig
from accel_train.doctor import options
from accel_train.doctor.options import check_data, check_run
from accel_train.errors import UserError


def check(processes: int, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
    monkeypatch.setattr(options, "world_size", lambda: processes)
    check_run(DoctorConfig(**given), dict.fromkeys(given, "flag"))


@pytest.mark.parametrize(
    ("processes", "given", "error"),
    [
        (1, {"model": "nope"}, "unknown model 'nope'"),
        (1, {"resume": "nope"}, "--resume nope is no run and no checkpoint of one"),
        (
            *(2, {"global_batch_size": 64, "batch_size": 64}),
            "2 processes cannot share one micro-batch of 64 (--global-batch-size 64)",
        ),
        (
            *(4, {"data": "pictures", "global_batch_size": 64, "batch_size": 64, "strategy": "pipeline"}),
            "--strategy pipeline needs --pipeline-stages",
        ),
        (1, {"global_batch_size": 4096}, "the global batch of 4,096 images is larger than the 1,438 training images"),
        (1, {"model": "nowhere:build"}, "--model nowhere:build: No module named 'nowhere'"),
        (
            1,
            {"weights": "none.pt"},
            "--weights none.pt: there is no such file or folder, and cnn has no published weights",
        ),
        (1, {"warmup_epochs": 20}, "--warmup-epochs 20 must be less than the 20 epochs of the run"),
    ],
)
def test_what_a_run_refuses_is_refused(
    monkeypatch: pytest.MonkeyPatch, processes: int, given: dict[str, Any], error: str
) -> None:
    with pytest.raises(UserError) as refused:
        check(processes, monkeypatch, **given)
    assert refused.value.message == error


@pytest.mark.parametrize(
    ("processes", "given"),
    [
        (2, {}),
        (2, {"global_batch_size": 64, "batch_size": 32, "model": "resnet18"}),
        (2, {"data": "pictures", "global_batch_size": 65536, "batch_size": 32}),
        (4, {"global_batch_size": 64, "batch_size": 32, "strategy": "pipeline", "pipeline_stages": 2}),
        (3, {"strategy": "pipeline", "pipeline_stages": 2}),  # which the start refuses
        (2, {"global_batch_size": 64, "auto_micro_batch": True}),
        (1, {"data": "pictures", "batch_size": 8, "weights": __file__, "model": "mlp", "warmup_epochs": 7}),
    ],
)
def test_what_a_run_takes_is_accepted(monkeypatch: pytest.MonkeyPatch, processes: int, given: dict[str, Any]) -> None:
    check(processes, monkeypatch, **given)


FUNCTIONS = """
import torch


class Images:
    classes = ("a", "b")

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.zeros(1, 8, 8), index % 2


def split():
    return Images(), Images()


def none():
    return None


def broken():
    raise ValueError("boom")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "doctors_data.py").write_text(FUNCTIONS)
    (tmp_path / "empty").mkdir()
    (tmp_path / "pictures" / "train").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "error", "fix"),
    [
        ({"data": "doctors_data:none"}, "--data doctors_data:none did not return a pair", "return (training data"),
        ({"data": "doctors_data:broken"}, "--data doctors_data:broken: ValueError: boom", "mend your code"),
        ({"data": "doctors_data:lost"}, "--data doctors_data:lost: module 'doctors_data' has no", "define lost"),
        ({"data": "none"}, "--data none does not exist here", "mount or copy"),
        ({"data": "empty"}, "--data empty is an empty folder here", "mount or copy"),
        ({"data": "pictures", "labels": "labels.csv"}, "--labels labels.csv does not exist here", "mount or copy"),
        ({"data": "pictures", "data_dir": Path("x")}, "--data-dir x has no effect on pictures", "leave it out"),
        ({"data": "digits", "val_fraction": 0.5}, "--val-fraction has no effect on digits", "leave it out"),
        ({"data": "digits", "label_column": "kind"}, "--label-column kind has no effect without", "leave it out"),
        ({"data": "doctors_data.py/x"}, "--data doctors_data.py/x: Not a directory", "readable"),
    ],
)
def test_data_that_are_not_on_this_host_are_found(place: Path, given: dict[str, Any], error: str, fix: str) -> None:
    with pytest.raises(UserError) as refused:
        check_data(DoctorConfig(**given), dict.fromkeys(given, "flag"))
    assert refused.value.message.startswith(error)
    assert fix in refused.value.hint


def test_data_of_a_recipe_are_left_to_the_user(place: Path) -> None:
    with pytest.raises(UserError, match="the data of recipe a are not in the package"):
        check_data(DoctorConfig(data="imagenet"), {"data": "recipe a"})


@pytest.mark.parametrize("data", ["doctors_data:split", "pictures", "digits", "hf:a/b"])
def test_data_that_are_on_this_host_are_accepted(place: Path, data: str) -> None:
    check_data(DoctorConfig(data=data), {"data": "flag"})
