"""The speed of a CPU is not taken for that of a GPU."""

import pytest
import torch

from accel_train.errors import UserError
from accel_train.planning.measure import check_device


def test_a_plan_of_gpus_is_not_measured_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    check_device("cpu")
    with pytest.raises(UserError, match="the plan is of GPUs, and this machine has none"):
        check_device("auto")
