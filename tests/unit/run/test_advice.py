"""A run whose accuracy is poor gets at most three lines, each with its figure; a healthy one gets none."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.resolve import resolve
from accel_train.data.contents import Contents, SplitContents
from accel_train.events import EpochEnd
from accel_train.metrics.predictions import Predictions
from accel_train.run.advice import Outcome, advice

CLASSES = tuple("0123456789")


def planned(images: int, **given: Any) -> tuple[ResolvedConfig, Plan]:
    asked = TrainConfig(**{"data": "digits", "model": "mlp", "batch_size": 64, "epochs": 10, "lr": 0.1, **given})
    config = resolve(asked, {}, "digits", images, "fp32")[0]
    return config, make_plan(config, 1, images)


def contents(train: list[int], val: list[int]) -> Contents:
    splits = {
        name: SplitContents(sum(counts), tuple(counts), None) for name, counts in (("train", train), ("val", val))
    }
    return Contents(CLASSES, splits)


def epoch(number: int, val: float, train: float | None = 0.65, loss: float = 1.0) -> EpochEnd:
    return EpochEnd(
        epoch=number,
        update=number * 200,
        train_loss=train,
        train_accuracy=train,
        val_loss=loss,
        val_accuracy=val,
        ema_val_loss=None,
        ema_val_accuracy=None,
        lr=0.1,
        images_per_second=1.0,
        seconds=1.0,
        best=False,
    )


def outcome(val: float = 0.6, train: float | None = 0.65, **given: Any) -> Outcome:
    """Return a run of 12,800 images of ten even classes whose loss no longer falls."""
    config, plan = planned(given.pop("images", 12_800), **given)
    data = contents([plan.updates_per_epoch * 64 // 10] * 10, [100] * 10)
    return Outcome(config, plan, data, epoch(9, val, train), epoch(10, val, train), 28, 28, None)


def predicted(*counts: int) -> Predictions:
    """Return predictions of each class as often as given, for 100 images of each."""
    labels, found = np.repeat(np.arange(10), 100), np.repeat(np.arange(10), counts)
    ranks = np.where(labels == found, 1, 2)
    ones = np.ones(len(labels), dtype=np.float32)
    return Predictions(CLASSES, tuple(map(str, range(len(labels)))), labels, found, ones, ones, ranks)


def test_run_without_a_cause_gets_no_advice() -> None:
    assert advice(outcome()) == ()


def test_shuffled_labels_are_suspected_if_training_images_were_memorized_and_validation_is_chance() -> None:
    (line,) = advice(outcome(val=0.1012, train=0.83))
    assert line == (
        "training accuracy 0.8300, but validation 0.1012, which is chance (0.1000): the labels look shuffled; "
        "compare them with the images: accel_train preview --data digits --output preview.png"
    )


def test_high_learning_rate_is_named_with_its_limit() -> None:
    (line,) = advice(outcome(lr=2.0, lr_scaling="none"))
    assert line == ("the peak learning rate was 2 for 64 images per update, above 0.1, the limit for mlp: try --lr 0.1")


def test_run_at_chance_is_told_once() -> None:
    at_chance = outcome(val=0.1, train=0.1, lr=0.0001, lr_scaling="none")
    (line,) = advice(at_chance)
    assert line.startswith(
        "validation accuracy 0.1000 after 10 epochs is chance (the largest of 10 classes has 0.1000)"
    )
    assert advice(replace(at_chance, noted=True)) == ()
    (line,) = advice(outcome(val=0.1, train=0.1, lr=2.0, lr_scaling="none"))
    assert line.startswith("the peak learning rate was 2 ")


@pytest.mark.parametrize(("stored", "side", "smaller"), [(8, 224, "32"), (28, 224, "32"), (40, 224, "64")])
def test_enlarged_images_get_a_smaller_size(stored: int, side: int, smaller: str) -> None:
    (line,) = advice(replace(outcome(), stored_side=stored, model_side=side))
    assert line == (
        f"images of {stored} × {stored} pixels are enlarged to {side} × {side}, which adds no detail: "
        f"try --image-size {smaller} and more epochs in the same time"
    )


@pytest.mark.parametrize(("stored", "side"), [(8, 28), (8, 32), (60, 224), (300, 224)])
def test_little_enlarged_images_are_fine(stored: int, side: int) -> None:
    assert advice(replace(outcome(), stored_side=stored, model_side=side)) == ()


@pytest.mark.parametrize(("sides", "smaller"), [(range(63, 300), "63"), (range(16, 300, 20), "36")])
def test_smaller_size_is_one_that_the_model_accepts(sides: range, smaller: str) -> None:
    (line,) = advice(replace(outcome(), stored_side=8, model_side=224, model_sides=sides))
    assert f"try --image-size {smaller} " in line
    assert advice(replace(outcome(), stored_side=8, model_side=63, model_sides=range(63, 300))) == ()
    assert advice(replace(outcome(), stored_side=8, model_side=224, model_sides=range(224, 225))) == ()


def test_images_may_be_enlarged_for_given_weights() -> None:
    found = replace(outcome(), stored_side=8, model_side=224)
    config = found.config.model_copy(update={"weights": "DEFAULT"})
    assert "enlarged" in str(advice(found))
    assert "enlarged" not in str(advice(replace(found, config=config)))


def test_preview_of_labels_is_a_command_that_can_be_pasted() -> None:
    found = outcome(val=0.1012, train=0.83)
    config = found.config.model_copy(update={"data": "my data", "labels": Path("a b.csv"), "label_column": "x;y"})
    (line,) = advice(replace(found, config=config))
    assert line.endswith(
        ": accel_train preview --data 'my data' --labels 'a b.csv' --label-column 'x;y' --output preview.png"
    )


def test_one_image_of_a_class_is_counted_as_one() -> None:
    one = outcome()
    data = contents([1] * 10, [100] * 10)
    assert advice(replace(one, contents=data))[0].startswith("1 training image per class is few for a model ")
    few = contents([2] * 5 + [1] * 5, [100] * 10)
    assert advice(replace(one, contents=few))[0].startswith("1.5 training images per class are few for a model ")


def test_few_images_are_counted_by_class_unless_the_weights_are_given() -> None:
    few = outcome(images=280)
    lines = advice(few)
    assert lines == (
        "25 training images per class are few for a model from random weights: "
        "try --model resnet18 --weights DEFAULT, or more images",
    )
    config = few.config.model_copy(update={"weights": "DEFAULT", "lr": 0.01})
    assert "few for a model" not in str(advice(replace(few, config=config)))


def test_class_that_is_never_predicted_is_named() -> None:
    found = replace(outcome(), predictions=predicted(200, 0, *[100] * 8))
    assert advice(found) == ("1 of 10 classes is never predicted, namely 1 (100 validation images): try --epochs 20",)
    several = replace(found, predictions=predicted(300, 0, 0, *[100] * 7))
    assert advice(several)[0].startswith("2 of 10 classes are never predicted, such as 1 (100 validation images): ")
    rare = replace(found, contents=contents([1000, 50, *[1000] * 8], [100] * 10))
    assert advice(rare) == (
        "1 of 10 classes is never predicted, namely 1 (100 validation images): try --balance weights or --epochs 20",
    )
    assert advice(replace(found, predictions=predicted(*[100] * 10))) == ()


def test_overfitting_is_told_with_both_accuracies() -> None:
    (line,) = advice(outcome(val=0.7, train=0.9))
    assert line.startswith("training accuracy 0.9000 is far above validation 0.7000: try --augment standard, ")
    assert advice(replace(outcome(val=0.7, train=0.9), noted=True)) == ()
    assert advice(outcome(val=0.7, train=None)) == ()


@pytest.mark.parametrize(
    ("was", "now", "falls"), [(0.6, 0.5, True), (0.6, 0.58, True), (0.6, 0.59, False), (0.5, 0.6, False)]
)
def test_loss_that_still_falls_asks_for_more_epochs(was: float, now: float, falls: bool) -> None:
    found = replace(outcome(), before=epoch(9, 0.6, loss=was), last=epoch(10, 0.6, loss=now))
    line = f"the validation loss still fell, from {was:.3f} to {now:.3f} in the last epoch: try --epochs 20"
    assert advice(found) == ((line,) if falls else ())
    assert advice(replace(found, before=None)) == ()


def test_figures_of_averaged_weights_are_said_to_be_theirs() -> None:
    found = outcome(ema=5000)
    before, last = (replace(epoch(n, 0.9), ema_val_accuracy=0.6, ema_val_loss=1 / n) for n in (9, 10))
    (line,) = advice(replace(found, before=before, last=last))
    assert line == "the EMA validation loss still fell, from 0.111 to 0.100 in the last epoch: try --epochs 20"
    last = replace(last, ema_val_accuracy=0.4, ema_val_loss=1.0)
    (line,) = advice(replace(found, before=before, last=last))
    assert line.startswith("training accuracy 0.6500 is far above EMA validation 0.4000: try ")


def test_at_most_three_lines_come_the_gravest_first() -> None:
    found = outcome(val=0.7, train=0.9, images=280, lr=2.0, lr_scaling="none")
    found = replace(found, before=epoch(9, 0.6, loss=9.0), stored_side=8, model_side=224)
    assert [line.split()[0] for line in advice(found)] == ["the", "images", "25"]


@pytest.mark.parametrize("val", [0.9, 0.99])
def test_good_run_gets_no_advice(val: float) -> None:
    found = replace(outcome(val=val, lr=2.0, lr_scaling="none"), stored_side=8, model_side=224)
    assert advice(found) == ()


def test_synthetic_images_get_no_advice() -> None:
    found = outcome(val=0.1, train=0.9)
    config = found.config.model_copy(update={"data": "synthetic:64,1,8,8,10"})
    assert advice(replace(found, config=config)) == ()
