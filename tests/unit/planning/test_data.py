"""The sizes of data are known without the data, or given."""

from pathlib import Path
from typing import Any

import pytest

from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.options import TrainConfig
from accel_train.config.plan_options import PlanConfig
from accel_train.data.sources.base import DataSet
from accel_train.errors import UserError
from accel_train.planning.data import PUBLISHED_SIZES, planned_data
from accel_train.run.training_data import open_training_data


def sizes(data: DataSet) -> tuple[int, int, tuple[int, int, int], int]:
    return len(data.train), len(data.val), data.train.shape, len(data.train.classes)


@pytest.mark.parametrize("name", ["digits", "synthetic:50,3,8,9,7", "synthetic"])
@pytest.mark.parametrize("limit", [None, 40])
def test_sizes_are_those_of_the_data(name: str, limit: int | None) -> None:
    asked = TrainConfig(data=name, limit=limit)
    assert sizes(planned_data(asked, PlanConfig(), {})) == sizes(open_training_data(asked, {}))


def test_all_published_data_are_known() -> None:
    assert PUBLISHED_SIZES.keys() == DATA_DEFAULTS.keys() - {"synthetic", "module", "folder"}


def test_data_that_are_not_here() -> None:
    found = planned_data(TrainConfig(data="/none/imagenet"), PlanConfig(images=1000, classes=20), {})
    assert found.kind == "folder"
    assert sizes(found) == (1000, 200, (3, 224, 224), 20)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"data": "mnist", "val_fraction": 0.5}, "--val-fraction"),
        ({"data": "digits", "data_dir": Path("sets")}, "--data-dir sets"),
        ({"data": "synthetic", "labels": "a.csv"}, "--labels"),
    ],
)
def test_option_without_effect_is_refused(given: dict[str, Any], option: str) -> None:
    with pytest.raises(UserError, match=f"^{option} has no effect on {given['data']}"):
        planned_data(TrainConfig(**given), PlanConfig(), dict.fromkeys(given, "flag"))


def test_folder_that_is_not_here_is_refused() -> None:
    with pytest.raises(UserError, match="neither a known data set nor a folder") as refused:
        planned_data(TrainConfig(data="/none/imagenet"), PlanConfig(), {})
    assert refused.value.hint.endswith("or add --images and --classes: plan needs no data")


def test_nothing_is_downloaded() -> None:
    with pytest.raises(UserError, match="--data hf:beans would be downloaded"):
        planned_data(TrainConfig(data="hf:beans"), PlanConfig(), {})


@pytest.mark.parametrize(("given", "missing"), [({"images": 10}, "classes"), ({"classes": 10}, "images")])
def test_half_of_the_sizes_is_refused(given: dict[str, int], missing: str) -> None:
    with pytest.raises(UserError, match=f"--{missing} is missing"):
        PlanConfig(**given)
