"""A run that learns nothing is noted once, with a figure; a run that learns is not."""

from dataclasses import replace
from typing import Any

import pytest

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.resolve import resolve
from accel_train.data.contents import Contents, SplitContents
from accel_train.events import EpochEnd
from accel_train.run.learning_notes import (
    LearningNotes,
    at_chance,
    at_start,
    chance_margin,
    far_above_limit,
    far_above_noise,
    few_updates,
    high_rate,
    memorized,
    uneven_shares,
)

TEN = tuple("0123456789")


def contents(*counts: int, told: bool = True) -> Contents:
    """Return the contents of data with as many validation images of each class."""
    of = SplitContents(sum(counts), counts if told else None, None)
    return Contents(TEN[: len(counts)], {"train": of, "val": of})


EVEN = contents(*[100] * 10)


def planned(images: int = 12_800, data: str = "digits", **given: Any) -> tuple[ResolvedConfig, Plan]:
    """Return config and plan of a run with 200 updates per epoch."""
    kind = data.partition(":")[0]
    asked = TrainConfig(**{"data": data, "model": "mlp", "batch_size": 64, "epochs": 10, "lr": 0.4, **given})
    config = resolve(asked, {}, kind, images, "fp32")[0]
    return config, make_plan(config, 1, images)


def epoch(number: int, val: float, train: float | None = 0.5, ema: float | None = None, updates: int = 200) -> EpochEnd:
    return EpochEnd(
        epoch=number,
        update=number * updates,
        train_loss=train,
        train_accuracy=train,
        val_loss=1.0,
        val_accuracy=val,
        ema_val_loss=ema,
        ema_val_accuracy=ema,
        lr=0.1,
        images_per_second=1.0,
        seconds=1.0,
        best=False,
    )


@pytest.mark.parametrize(
    ("share", "images", "margin"),
    [
        (0.1, 10_000, 0.006),
        (0.1, 359, 0.0317),
        (0.2, 56, 0.1069),
        (0.5, 64, 0.125),
        (0.5, 12, None),
        (0.95, 20, None),
        (0.99, 10_000, 0.002),
        (1.0, 50, None),
    ],
)
def test_margin_depends_on_the_number_of_images(share: float, images: int, margin: float | None) -> None:
    found = chance_margin(share, images)
    assert found is None if margin is None else found == pytest.approx(margin, abs=1e-4)


def test_accuracy_at_chance_is_noted_with_a_learning_rate() -> None:
    assert at_chance(*planned(), EVEN, None, epoch(3, 0.1012)) == (
        "validation accuracy 0.1012 after 3 epochs is chance (the largest of 10 classes has 0.1000): "
        "try --lr 0.05 (peak now 0.4)"
    )


@pytest.mark.parametrize(
    ("val", "data", "noted"),
    [
        (0.118, EVEN, True),
        (0.12, EVEN, False),
        (0.05, EVEN, True),
        (0.91, contents(900, 100), True),
        (0.93, contents(900, 100), False),
        (0.118, contents(*[100] * 10, told=False), True),
        (0.23, contents(14, 14, 14, 7, 7), True),
        (0.40, contents(14, 14, 14, 7, 7), False),
        (0.5, contents(6, 6), False),
    ],
)
def test_chance_is_the_share_of_the_largest_class(val: float, data: Contents, noted: bool) -> None:
    assert (at_chance(*planned(), data, None, epoch(3, val)) is not None) == noted


@pytest.mark.parametrize(
    ("balanced", "ema", "noted"),
    [(None, None, True), (0.5, None, True), (0.54, None, True), (0.58, None, False), (0.5, 0.7, False)],
)
def test_balanced_classes_may_cost_accuracy(balanced: float | None, ema: float | None, noted: bool) -> None:
    """An accuracy below the share of the largest class is not chance if the other classes are recognised."""
    end = replace(epoch(3, 0.8), val_balanced_accuracy=balanced, ema_val_balanced_accuracy=ema)
    assert (at_chance(*planned(), contents(900, 100), None, end) is not None) == noted


@pytest.mark.parametrize(
    ("epochs", "updates", "given", "first"),
    [
        (10, 200, {}, 3),
        (100, 200, {}, 3),
        (100, 20, {}, 10),
        (40, 20, {}, 4),
        (20, 20, {}, 3),
        (2, 200, {}, 2),
        (1, 200, {}, 1),
        (10, 200, {"warmup_epochs": 5}, 6),
    ],
)
def test_chance_is_noted_after_three_epochs_or_a_tenth_of_the_run(
    epochs: int, updates: int, given: dict[str, Any], first: int
) -> None:
    config, plan = planned(64 * updates, epochs=epochs, **given)
    noted = [n for n in range(1, epochs + 1) if at_chance(config, plan, EVEN, None, epoch(n, 0.1, updates=updates))]
    assert noted[0] == first


def test_run_with_few_updates_is_told_to_make_more_both_at_its_start_and_at_chance() -> None:
    config, plan = planned(1_438, epochs=4, batch_size=512, lr=0.1)
    assert few_updates(config, plan) == (
        "only 8 updates in 4 epochs (global batch 512 of 1,438 images): try --batch-size 16",
    )
    note = at_chance(config, plan, EVEN, None, epoch(4, 0.1, updates=2))
    assert note is not None
    assert note.endswith(": try --batch-size 16")


@pytest.mark.parametrize(
    ("images", "given", "figure"),
    [
        (64, {"epochs": 1}, "only 1 update in 1 epoch (global batch 64 of 64 images): "),
        (1_000, {"epochs": 100, "batch_size": 256}, "only 3 updates per epoch (global batch 256 of 1,000 images): "),
    ],
)
def test_few_updates_are_noted_with_the_figure_that_is_low(images: int, given: dict[str, Any], figure: str) -> None:
    [note] = few_updates(*planned(images, **given))
    assert note.startswith(figure)


def test_chance_counts_the_better_of_weights_and_average() -> None:
    config, plan = planned()
    assert at_chance(config, plan, EVEN, None, epoch(3, 0.9, ema=0.1)) is None
    assert at_chance(config, plan, EVEN, None, epoch(3, 0.1, ema=0.9)) is None
    assert at_chance(config, plan, EVEN, None, epoch(3, 0.1, ema=0.1)) is not None


@pytest.mark.parametrize(
    ("before", "now", "noted"),
    [
        ((0.96, 0.7), (0.999, 0.71), True),
        ((0.94, 0.7), (0.999, 0.71), False),
        ((0.96, 0.7), (0.999, 0.86), False),
        ((0.96, 0.82), (0.999, 0.71), False),
        (None, (0.999, 0.71), False),
        ((0.96, 0.7), (None, 0.71), False),
    ],
)
def test_training_far_above_validation_is_noted_when_it_lasts(
    before: tuple[float, float] | None, now: tuple[float | None, float], noted: bool
) -> None:
    earlier = epoch(11, before[1], train=before[0]) if before else None
    note = memorized(planned()[0], earlier, epoch(12, now[1], train=now[0]))
    if not noted:
        assert note is None
    else:
        assert note == (
            "training accuracy 0.9990, validation 0.7100 after 12 epochs: the model memorizes the training images; "
            "try --augment standard, --weight-decay 0.002 (now 0.0005), --label-smoothing 0.1 or more images"
        )


def kinds(notes: list[str]) -> list[str]:
    return ["memorizes" if "memorizes" in note else "chance" for note in notes]


def test_each_note_is_given_once_and_one_at_a_time() -> None:
    notes = LearningNotes(*planned(), EVEN, last=None)
    assert notes.after(epoch(2, 0.1)) == []
    assert kinds(notes.after(epoch(3, 0.1))) == ["chance"]
    assert notes.after(epoch(4, 0.1, train=0.99)) == []
    assert kinds(notes.after(epoch(5, 0.1, train=0.99))) == ["memorizes"]
    assert notes.after(epoch(6, 0.1, train=0.99)) == []


def test_memorized_data_at_chance_are_no_matter_of_the_learning_rate() -> None:
    notes = LearningNotes(*planned(), EVEN, last=epoch(3, 0.1, train=0.99))
    assert kinds(notes.after(epoch(4, 0.1, train=0.99))) == ["memorizes"]


def test_run_that_learns_and_synthetic_images_are_not_noted() -> None:
    learning = LearningNotes(*planned(), EVEN, last=None)
    assert [note for n in range(1, 11) for note in learning.after(epoch(n, 0.5 + n / 25, train=0.6 + n / 25))] == []
    config, plan = planned(data="synthetic:1280,3,32,32,10", images=64)
    synthetic = LearningNotes(config, plan, EVEN, last=None)
    assert few_updates(config, plan) == ()
    assert [note for n in range(1, 11) for note in synthetic.after(epoch(n, 0.1, train=0.99))] == []


@pytest.mark.parametrize(
    ("given", "note"),
    [
        (
            {"lr": 0.4},
            "the peak learning rate of 0.4 is above 0.1, the limit for mlp with sgd: it may diverge; try --lr 0.1",
        ),
        (
            {"lr": None, "lr_scaling": "linear", "batch_size": 1024},
            "the peak learning rate of 0.8 is above 0.1, the limit for mlp with sgd: it may diverge; try --max-lr 0.1",
        ),
        (
            {"optimizer": "adamw", "lr": 1},
            "the peak learning rate of 1 is above 0.008, the limit for mlp with adamw: it may diverge; try --lr 0.008",
        ),
        (
            {"lr": None, "warmup_from": 500},
            "the peak learning rate of 500 is above 0.1, the limit for mlp with sgd: it may diverge; "
            "try --warmup-from 0.1",
        ),
        ({"lr": 0.1}, None),
        ({"lr": None, "batch_size": 4096}, None),
    ],
)
def test_rate_above_the_limit_is_noted_at_the_start(given: dict[str, Any], note: str | None) -> None:
    config, plan = planned(60_000, **given)
    assert high_rate(config, plan) == ((note,) if note else ())
    assert set(high_rate(config, plan)) <= set(at_start(config, plan))


def test_warmup_from_above_the_peak_is_noted_at_the_start() -> None:
    """Such as that of Goyal et al. 2017, from 0.1, for a batch below 256."""
    config, plan = planned(60_000, lr=0.1, lr_scaling="linear", warmup_from=0.1)
    assert at_start(config, plan) == (
        "warmup starts at 0.1, above the peak of 0.025, and the rate falls: try --warmup-from 0.0002",
    )
    assert at_start(*planned(60_000, lr=0.1, lr_scaling="linear", warmup_from=0.025)) == ()
    assert at_start(*planned(60_000, lr=0.1, lr_scaling="linear", warmup_from=0.1, batch_size=256)) == ()


@pytest.mark.parametrize(
    ("processes", "notes"),
    [
        (1, []),
        (2, []),
        (
            3,
            ["3 processes share 8 micro-batches per update unequally, and wait 11% of the time; 2 or 8 would not wait"],
        ),
        (
            7,
            ["7 processes share 8 micro-batches per update unequally, and wait 43% of the time; 4 or 8 would not wait"],
        ),
        (8, []),
    ],
)
def test_processes_that_wait_for_others_with_more_micro_batches_are_noted(processes: int, notes: list[str]) -> None:
    config, _ = planned(global_batch_size=512)
    plan = make_plan(config, processes, 12_800)
    assert list(uneven_shares(plan)) == notes
    assert set(notes) <= set(at_start(config, plan))


ABOVE = (
    "scaling stops at 0.1, the rate for 128 images per update: "
    "1,024 make fewer updates at the same rate, and learn less; "
)


@pytest.mark.parametrize(
    ("given", "notes"),
    [
        ({"batch_size": 1024}, [ABOVE + "try --batch-size 512 or --epochs 18"]),
        ({"batch_size": 64, "accumulate": 16}, [ABOVE + "try --accumulate 8 or --epochs 18"]),
        ({"global_batch_size": 1024}, [ABOVE + "try --global-batch-size 512 or --epochs 18"]),
        ({"batch_size": 1024, "epochs": 18}, []),
        ({"batch_size": 512}, []),
        ({"batch_size": 1024, "max_lr": 0.4}, []),
        ({"batch_size": 1024, "lr": 0.1}, []),
        ({"batch_size": 1024, "lr": 0.1, "lr_scaling": "linear"}, []),
        ({"batch_size": 4096, "optimizer": "adamw"}, []),
        (
            {"batch_size": 8192, "optimizer": "adamw", "epochs": 100},
            ["scaling stops at 0.008, the rate for 1,024 images"],
        ),
    ],
)
def test_batch_far_above_the_limit_of_scaling_is_noted_at_the_start(given: dict[str, Any], notes: list[str]) -> None:
    config, plan = planned(60_000, **{"lr": None, **given})
    found = far_above_limit(config, plan)
    assert len(found) == len(notes)
    assert all(note.startswith(start) for note, start in zip(found, notes, strict=True))
    assert set(found) <= set(at_start(config, plan))


def noisy(number: int, value: float | None, low: float | None, high: float | None) -> EpochEnd:
    return replace(epoch(number, 0.9), noise_scale=value, noise_scale_low=low, noise_scale_high=high)


def test_batch_far_above_the_noise_scale_is_noted_with_a_smaller_one() -> None:
    config, plan = planned(accumulate=32)  # 2,048 images per update
    assert far_above_noise(config, plan, None, noisy(3, 300.4, 200.0, 409.0)) == (
        "2,048 images per update are far above the gradient noise scale of 300 (200 to 409): "
        "fewer would teach as much; try --accumulate 4"
    )


@pytest.mark.parametrize(
    ("number", "interval"),
    [
        (3, (300.0, 200.0, 410.0)),  # a fifth of 2,048, or more
        (3, (300.0, 200.0, None)),
        (3, (None, 200.0, None)),
        (3, (None, None, None)),
        (2, (3.0, 2.0, 4.0)),  # within the first quarter of ten epochs
    ],
)
def test_batch_that_may_be_right_is_not_noted(number: int, interval: tuple[float | None, float, float | None]) -> None:
    config, plan = planned(accumulate=32)
    assert far_above_noise(config, plan, None, noisy(number, *interval)) is None


def test_noise_scale_during_warmup_is_not_noted() -> None:
    config, plan = planned(accumulate=32, warmup_epochs=5)
    updates = plan.updates_per_epoch
    during, after = (replace(noisy(number, 3.0, 2.0, 4.0), update=number * updates) for number in (5, 6))
    assert far_above_noise(config, plan, None, during) is None
    assert far_above_noise(config, plan, None, after) is not None


def test_batch_that_cannot_be_smaller_is_not_noted() -> None:
    config, plan = planned(batch_size=16)
    assert far_above_noise(config, plan, None, noisy(3, 1.0, 0.5, 2.0)) is None


def test_note_of_the_noise_scale_is_given_once() -> None:
    config, plan = planned(accumulate=32)
    notes = LearningNotes(config, plan, EVEN, None)
    given = [notes.after(noisy(number, 300.4, 200.0, 400.0)) for number in range(1, 8)]
    assert [len(each) for each in given] == [0, 0, 1, 0, 0, 0, 0]
