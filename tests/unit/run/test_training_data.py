"""Options of the training data that have no effect are refused if the user gives them, not if a stored run has them."""

from pathlib import Path

import pytest

from accel_train.config.options import FROM_RUN, TrainConfig
from accel_train.errors import UserError
from accel_train.run.training_data import open_training_data

ASKED = TrainConfig(data="digits", data_dir=Path("sets"))


@pytest.mark.parametrize("origin", ["flag", "given", "my.yaml"])
def test_given_folder_without_effect_is_refused(origin: str) -> None:
    with pytest.raises(UserError, match=r"^--data-dir sets has no effect on digits"):
        open_training_data(ASKED, {"data_dir": origin})


@pytest.mark.parametrize("origins", [{}, {"data_dir": FROM_RUN}])
def test_folder_of_a_stored_run_is_accepted(origins: dict[str, str]) -> None:
    assert open_training_data(ASKED, origins).kind == "digits"


def test_file_of_options_may_leave_the_folder_open() -> None:
    assert open_training_data(TrainConfig(data="digits"), {"data_dir": "config.yaml"}).kind == "digits"
