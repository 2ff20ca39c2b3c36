"""What wandb says of a setting that it cannot read names the environment variable."""

from typing import Self

import pytest
from pydantic import BaseModel, ValidationError, model_validator

from accel_train.trackers.wandb import _wrong_variable


class Settings(BaseModel):
    """Settings as wandb has them."""

    silent: bool = False


@pytest.mark.parametrize(
    ("variable", "named"), [("WANDB_SILENT", "the environment variable WANDB_SILENT is"), ("WANDB_DIR", "silent is")]
)
def test_wrong_value_is_told_with_its_variable(monkeypatch: pytest.MonkeyPatch, variable: str, named: str) -> None:
    monkeypatch.delenv("WANDB_SILENT", raising=False)
    monkeypatch.setenv(variable, "perhaps")
    with pytest.raises(ValidationError) as failed:
        Settings.model_validate({"silent": "perhaps"})
    problem = _wrong_variable(failed.value)
    assert problem == f"{named} 'perhaps': Input should be a valid boolean, unable to interpret input"


def test_settings_that_exclude_each_other_are_told_in_the_words_of_the_library() -> None:
    class Exclusive(Settings):
        @model_validator(mode="after")
        def check(self) -> Self:
            raise ValueError("resume and fork_from are mutually exclusive")

    with pytest.raises(ValidationError) as failed:
        Exclusive()
    assert _wrong_variable(failed.value) == "Value error, resume and fork_from are mutually exclusive"
