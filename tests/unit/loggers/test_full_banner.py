"""The full description of a run at its start, for --verbose."""

from dataclasses import replace
from typing import Any

import pytest
from helpers.run_events import STARTED, started

from accel_train.config.options import TrainConfig
from accel_train.events import RunStarted
from accel_train.loggers.full_banner import IN_OTHER_ROWS, OPTIONS, full_rows
from accel_train.loggers.rows import LONGEST_LABEL


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("run", "runs/digits-1"),
        (
            "data",
            "digits in the package: 1,437 training and 360 validation images of 1 × 8 × 8, 10 classes, in each process",
        ),
        ("model", "cnn, 93,322 parameters"),
        ("", "images stay at 8×8, which the model takes"),
        ("devices", "2 processes × cpu (asked: auto), started by accelerate launch"),
        ("hosts", "host 0 (node1): ranks 0–1, cpu, lo"),
        ("strategy", "ddp over gloo"),
        ("batch", "32 per process × 2 processes × 1 accumulation = 64 per update"),
        ("", "same run on other hardware: --global-batch-size 64 --batch-size 32"),
        ("optimizer", "sgd, momentum 0.9, nesterov, weight decay 0.0005"),
        ("learning rate", "0.2 at 256 → 0.05 at 64 (linear), cosine"),
        ("warmup", "22 updates from 0.0005"),
        ("updates", "22 per epoch × 2 epochs = 44"),
        ("dropped", "29 of 1,437 images (incomplete last batch) per epoch"),
        ("augmentation", "light: shift by up to 1 pixel"),
        ("seed", "0"),
    ],
)
def test_describes_run(label: str, text: str) -> None:
    assert (label, text) in full_rows(STARTED)


def with_classes(names: list[str], train: list[int] | None, val: list[int] | None) -> RunStarted:
    splits = {"train": {"counts": train}, "val": {"counts": val}}
    return replace(STARTED, data=replace(STARTED.data, contents={"classes": names, "splits": splits}))


def test_names_the_first_classes_with_their_images() -> None:
    few = with_classes(["cat", "dog"], [1200, 3], [5, 0])
    assert ("classes", "cat 1,200 + 5, dog 3 + 0") in full_rows(few)
    many = with_classes([f"c{i}" for i in range(1012)], list(range(1012)), [1] * 1012)
    (text,) = (text for label, text in full_rows(many) if label == "classes")
    assert text == ", ".join(f"c{i} {i} + 1" for i in range(10)) + ", and 1,002 more"
    assert ("classes", "cat, dog") in full_rows(with_classes(["cat", "dog"], None, [1, 2]))


def test_shows_none_for_what_does_not_apply() -> None:
    rows = full_rows(
        started(backend=None, lr_scaling="none", peak_lr=0.1, warmup_updates=0, images_dropped=0, batch_size=64)
    )
    assert {("strategy", "ddp"), ("learning rate", "0.1 (no scaling), cosine")} <= set(rows)
    assert "hosts" not in dict(full_rows(started(world_size=1)))
    assert {("warmup", "none"), ("dropped", "none")} <= set(rows)
    assert not any("same run" in text for _, text in rows)


def test_shows_settings_of_any_optimizer() -> None:
    adam = {"betas": [0.975, 0.99975], "eps": 1.6e-08, "amsgrad": False}
    rows = full_rows(started({"weight_decay": 0.05}, optimizer="adamw", optimizer_settings=adam))
    assert ("optimizer", "adamw, betas (0.975, 0.99975), eps 1.6e-08, weight decay 0.05") in rows


def test_shows_milestones_of_step_schedule() -> None:
    rows = full_rows(started({"milestones": [3.0, 4.5], "gamma": 0.1}, schedule="step"))
    assert ("learning rate", "0.2 at 256 → 0.05 at 64 (linear), step × 0.1 at epoch 3, 4.5") in rows


@pytest.mark.parametrize(
    ("config", "label", "text"),
    [
        ({"label_smoothing": 0.1}, "loss", "label smoothing 0.1"),
        ({"mixup": 0.2}, "mixup", "shares from Beta(0.2, 0.2)"),
        ({"cutmix": 1.0}, "CutMix", "shares from Beta(1, 1)"),
        ({"repeated_augmentation": 3}, "repeats", "each image 3 times in an update, augmented differently"),
        ({"balance": "sampling"}, "balance", "sampling"),
        ({"clip_norm": 1.0}, "clipping", "gradient norm at most 1"),
        ({"ema": 5e4}, "EMA", "half-life 50,000 images; used for evaluation and export"),
        ({"exact": True}, "exact", "bit-identical results on any number of processes"),
        ({"on_nan": "rollback"}, "on NaN", "rollback to the last checkpoint, skip the data since"),
        ({"target_accuracy": 0.98}, "target", "stop at validation accuracy 0.98"),
        ({"patience": 1}, "patience", "stop after 1 epoch without improvement"),
        ({"keep": 5}, "keep", "5 checkpoints, and that of the best epoch"),
        ({"watch_every": 0}, "watch every", "never"),
        ({"limit": 1000}, "limit", "at most 1,000 training and 1,000 validation images"),
        ({"save_every": "500updates"}, "save every", "500updates"),
        ({"stochastic_depth": 0.1}, "residuals", "stochastic depth 0.1"),
        ({"zero_init_residual": True}, "zero init", "residual blocks are identities at first"),
        ({"batch_norm_momentum": 0.2}, "BatchNorm", "momentum 0.2"),
        ({"head_lr_multiplier": 10.0}, "head rate", "× 10"),
        ({"tracker": ["csv", "trackio"]}, "tracker", "csv,trackio"),
    ],
)
def test_shows_option_only_if_it_differs_from_default(config: dict[str, Any], label: str, text: str) -> None:
    assert (label, text) in full_rows(started(config))
    assert label not in dict(full_rows(STARTED))


@pytest.mark.parametrize(
    ("config", "label", "text"),
    [
        ({"mixup": 0.0}, "mixup", "off"),
        ({"cutmix": 0.0}, "CutMix", "off"),
        ({"repeated_augmentation": 1}, "repeats", "off"),
        ({"label_smoothing": 0.0}, "loss", "no label smoothing"),
        ({"stochastic_depth": 0.0}, "residuals", "no stochastic depth"),
        ({"on_nan": "stop"}, "on NaN", "stop"),
        *[
            ({name: False}, OPTIONS[name].label, "off")
            for name, field in TrainConfig.model_fields.items()
            if name in OPTIONS and field.annotation in (bool, bool | None)
        ],
    ],
)
def test_options_that_are_switched_off_are_shown_so(config: dict[str, Any], label: str, text: str) -> None:
    assert (label, text) in full_rows(started(config))


def test_labels_leave_a_gap_to_their_values() -> None:
    labels = [
        row[0] for name in TrainConfig.model_fields.keys() - IN_OTHER_ROWS for row in full_rows(started({name: 0}))
    ]
    assert [label for label in labels if len(label) > LONGEST_LABEL] == []


def test_rows_are_of_config_fields_and_none_is_shown_twice() -> None:
    assert OPTIONS.keys() | IN_OTHER_ROWS <= TrainConfig.model_fields.keys()
    assert not OPTIONS.keys() & IN_OTHER_ROWS


def test_shows_field_without_a_row_by_name_and_value() -> None:
    assert ("weights", "runs/a") in full_rows(started({"weights": "runs/a"}))
    assert ("brand new", "7") in full_rows(started({"brand_new": 7}))


def test_shows_obeyed_variables_of_the_environment() -> None:
    assert ("environment", "A=1, B=2") in full_rows(started(environment=("A=1", "B=2")))
    assert "environment" not in dict(full_rows(started()))


def test_shows_identity_of_an_exact_run() -> None:
    rows = full_rows(started(exact=True))
    assert ("identity", "device cpu, CPU AMD EPYC, threads 1") in rows
    assert "identity" not in dict(full_rows(started()))


@pytest.mark.parametrize(
    ("change", "hints"),
    [
        ({}, ["set --threads 4 to use them", "(accelerate launch sets OMP_NUM_THREADS=1 if it is unset)"]),
        ({"launched_by": "torchrun"}, ["set --threads 4 to use them"]),
        ({"local_world_size": 1, "launched_by": "torchrun"}, ["set --threads 8 to use them"]),
        ({"config": {"threads": 1}}, []),  # as asked
        ({"threads": 4}, []),
        ({"cores": 2}, []),
        ({"device": "cuda"}, []),
        ({"exact": True}, ["set --threads 4 to use them"]),
    ],
)
def test_reports_idle_cores_on_cpus(change: dict[str, Any], hints: list[str]) -> None:
    rows = full_rows(started(**change))
    start = [label for label, _ in rows].index("threads")
    found = [text for label, text in rows[start + 1 : start + 3] if label == ""]
    assert len(found) == len(hints)
    assert all(hint in text for hint, text in zip(hints, found, strict=True))
