"""Options that a run refuses once it is started are found without data."""

from typing import Any

import pytest

from accel_train.config.doctor_options import DoctorConfig
from accel_train.doctor import options
from accel_train.doctor.options import check_run
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
    ],
)
def test_what_a_run_takes_is_accepted(monkeypatch: pytest.MonkeyPatch, processes: int, given: dict[str, Any]) -> None:
    check(processes, monkeypatch, **given)
