"""A flag beside a run's config.yaml decides what follows from it again; what the user chose for the run stays."""

from pathlib import Path
from typing import Any

import pytest

from accel_train.checkpoints.run_folder import config_text
from accel_train.config.derived import FOLLOWERS, file_of, is_chosen, outdated, through_file
from accel_train.config.load import make_config, merged, read_values
from accel_train.config.options import PLACEMENT, ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve

FIELDS = set(TrainConfig.model_fields)


def resolved(kind: str, **given: Any) -> tuple[ResolvedConfig, dict[str, str]]:
    config = make_config(TrainConfig, given, {})
    fit_of_weights = ("squash", None) if config.starts_from_weights else None
    return resolve(config, dict.fromkeys(given, "flag"), kind, 3000, "fp32", fit_of_weights)  # type: ignore[arg-type]


def again(folder: Path, kind: str, first: dict[str, Any], flags: dict[str, Any]) -> ResolvedConfig:
    """Resolve what ``train --config RUN/config.yaml`` and flags ask for, where the run was started with options."""
    config, origins = resolved(kind, **first)
    (folder / "config.yaml").write_text(config_text(config.model_dump(), origins, PLACEMENT))
    values, derived = read_values(folder / "config.yaml", FIELDS)
    return resolved(kind, **{**merged(values, flags, derived), **flags})[0]


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("digits", {"lr": 1.0}),
        ("digits", {"lr_scaling": "linear"}),
        ("digits", {"optimizer": "adamw"}),
        ("digits", {"model": "wide_resnet"}),
        ("digits", {"epochs": 1}),
        ("digits", {"schedule": "step", "milestones": [3.0]}),
        ("digits", {"global_batch_size": 96}),
        ("digits", {"trivial_augment": True}),
        ("folder", {"fit": "pad"}),
        ("folder", {"random_crop": False}),
        ("folder", {"eval_crop": 0.5}),
        ("folder", {"weights": "DEFAULT"}),
        ("folder", {"weights": "DEFAULT", "unfreeze_at": 2}),
        ("folder", {"augment": "none", "crop_scale": "0.5,1"}),
    ],
)
def test_run_without_options_is_started_as_if_the_flags_were_alone(
    tmp_path: Path, kind: str, flags: dict[str, Any]
) -> None:
    assert again(tmp_path, kind, {}, flags) == resolved(kind, **flags)[0]


def test_what_was_chosen_for_the_run_stays(tmp_path: Path) -> None:
    scaled = again(tmp_path, "digits", {"lr_scaling": "linear", "lr_base_batch": 32, "max_lr": 2.0}, {"lr": 1.0})
    assert (scaled.lr, scaled.lr_scaling, scaled.lr_base_batch, scaled.max_lr) == (1.0, "linear", 32, 2.0)
    warmed = again(tmp_path, "digits", {"warmup_epochs": 0.5, "lr": 0.3}, {"epochs": 2, "optimizer": "adamw"})
    assert (warmed.warmup_epochs, warmed.lr, warmed.lr_scaling) == (0.5, 0.3, "none")


@pytest.mark.parametrize("flags", [{"crop_scale": "0.5,1"}, {"crop_ratio": "1,1"}, {"augment": "strong"}])
def test_whole_pictures_that_the_weights_of_the_run_ask_for_do_not_exclude_random_crops(
    tmp_path: Path, flags: dict[str, Any]
) -> None:
    weights = {"weights": "DEFAULT"}
    found, expected = again(tmp_path, "folder", weights, flags), resolved("folder", **weights, **flags)[0]
    assert (found.fit, found.random_crop, found.crop_scale) == ("squash", True, expected.crop_scale)
    assert found == expected


def test_how_pictures_become_square_is_no_choice_for_other_data(tmp_path: Path) -> None:
    """It would be refused for images of one size."""
    config, origins = resolved("folder")
    (tmp_path / "config.yaml").write_text(config_text(config.model_dump(), origins, PLACEMENT))
    values, derived = read_values(tmp_path / "config.yaml", FIELDS)
    assert {"fit", "eval_crop"} <= values.keys()
    assert not {"fit", "eval_crop"} & merged(values, {"data": "digits"}, derived).keys()


def test_file_alone_starts_the_same_run(tmp_path: Path) -> None:
    assert again(tmp_path, "folder", {}, {}) == resolved("folder")[0]
    assert again(tmp_path, "folder", {"fit": "squash"}, {"seed": 1}) == resolved("folder", fit="squash", seed=1)[0]


def test_file_that_somebody_has_written_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("lr_scaling: linear  # by default\nmax_lr: 0.5\nnote: default\n".replace("note: default\n", ""))
    values, derived = read_values(path, FIELDS)
    assert derived == {}
    assert merged(values, {"lr": 1.0}, derived) == values


def test_default_that_went_through_files_is_still_one(tmp_path: Path) -> None:
    once = through_file("default for cnn with sgd", "a/config.yaml")
    assert once == "default for cnn with sgd, in a/config.yaml"
    assert through_file(once, "b.yaml") == "default for cnn with sgd, in b.yaml"
    assert not is_chosen(once)
    (tmp_path / "config.yaml").write_text(f"lr: 0.1  # {once}\nmax_lr: 0.05  # a/config.yaml\n")
    assert read_values(tmp_path / "config.yaml", FIELDS)[1] == {"lr": once}


@pytest.mark.parametrize(
    "path", ["default.yaml", "defaults/a, b.yaml", "as.yaml", "--odd.yaml", "because.yaml", "my default, in use.yaml"]
)
def test_value_of_a_file_is_chosen_whatever_its_name(tmp_path: Path, path: str) -> None:
    (tmp_path / "config.yaml").write_text(f"lr: 0.1  # {path}\nmax_lr: 0.2  # {through_file('default', path)}\n")
    derived = read_values(tmp_path / "config.yaml", FIELDS)[1]
    assert derived.keys() == {"max_lr"}
    assert is_chosen(path)
    assert file_of(path) == file_of(derived["max_lr"]) == path


def test_followers_are_options_and_are_found_through_others() -> None:
    names = {*FOLLOWERS, *(name for of_one in FOLLOWERS.values() for name in of_one)}
    assert names <= FIELDS
    derived = {"optimizer", "lr", "lr_scaling", "lr_base_batch", "max_lr", "weight_decay", "seed"}
    assert outdated(derived, {"model": "x"}) == derived - {"seed"}
    assert outdated(derived - {"optimizer"}, {"model": "x"}) == {"lr", "lr_scaling", "lr_base_batch", "max_lr"}
