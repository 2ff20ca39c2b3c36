"""What is proposed differs from what is, and helps: a hint that is followed brings no second hint."""

import random
from typing import Any

import pytest

from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.plan import Plan, make_plan
from accel_train.config.resolve import resolve
from accel_train.errors import UserError
from accel_train.run.learning_notes import high_rate
from accel_train.run.remedies import (
    MIN_UPDATES,
    MIN_UPDATES_PER_EPOCH,
    after_divergence,
    against_chance,
    against_memorizing,
    more_updates,
    round_down,
    smaller_batch,
)


def planned(images: int = 60_000, processes: int = 1, **given: Any) -> tuple[ResolvedConfig, Plan]:
    """Return the resolved config and the plan of a run on FashionMNIST, or of what is given."""
    config = resolve(
        TrainConfig(**{"data": "fashion-mnist", "model": "mlp", **given}), {}, "fashion-mnist", images, "fp32"
    )[0]
    return config, make_plan(config, processes, images)


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        (0.095, 0.05),
        (0.05, 0.05),
        (0.025, 0.02),
        (0.4, 0.2),
        (0.2, 0.2),
        (1.0, 1.0),
        (5.9, 5.0),
        (2.5e-4, 2e-4),
        (7.5e29, 5e29),
    ],
)
def test_round_down_gives_a_round_number_that_is_no_higher(rate: float, expected: float) -> None:
    assert round_down(rate) == expected


ROLLBACK = "; --on-nan rollback skips the data since the last checkpoint"


@pytest.mark.parametrize(
    ("given", "updates", "hint"),
    [
        ({"lr": 0.4}, 100, "try --lr 0.01 or --clip-norm 1 (learning rate so far at most 0.04584)" + ROLLBACK),
        ({"lr": 0.4}, 5000, "try --lr 0.05 or --clip-norm 1 (learning rate so far at most 0.4)" + ROLLBACK),
        ({"lr": 0.4, "clip_norm": 2}, 5000, "try --lr 0.05 (learning rate so far at most 0.4)" + ROLLBACK),
        ({"lr": 0.4, "on_nan": "rollback"}, 5000, "try --lr 0.05 or --clip-norm 1 (learning rate so far at most 0.4)"),
        (
            {"lr": 1e30, "warmup_epochs": 0},
            1,
            "try --lr 0.05 (learning rate so far at most 1e+30)" + ROLLBACK,
        ),
        (
            {"lr": 0.2, "lr_scaling": "linear", "batch_size": 1024, "warmup_epochs": 0},
            9,
            "try --max-lr 0.1 or --clip-norm 1 (learning rate so far at most 0.8)" + ROLLBACK,
        ),
        (
            {"warmup_from": 500},
            3,
            "try --warmup-from 0.05 (learning rate so far at most 500)" + ROLLBACK,
        ),
        (
            {"lr": 1e-4, "model": "mlp"},
            5000,
            "its learning rate was low: look for NaN in the images, or overflow in --model mlp" + ROLLBACK,
        ),
    ],
)
def test_divergence_is_met_by_a_learning_rate(given: dict[str, Any], updates: int, hint: str) -> None:
    assert after_divergence(*planned(**given), updates) == hint


@pytest.mark.parametrize("weights", [{}, {"weights": "runs/a"}])
def test_first_update_is_not_blamed_on_the_learning_rate(weights: dict[str, str]) -> None:
    hint = after_divergence(*planned(lr=1e9, **weights), 0)
    assert hint == (
        "no update was made before, so the learning rate is not the cause: look for NaN in the images"
        + " or the weights of --weights runs/a" * bool(weights)
        + ", and for overflow in --model mlp"
    )


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"lr": 0.8}, "--lr 0.05 (peak now 0.8)"),
        ({"lr": 0.05}, "--lr 0.01 (peak now 0.05)"),
        ({"lr": 0.05, "batch_size": 8192}, "--batch-size 2048 or --epochs 36"),
        ({"lr": 1e-5, "batch_size": 8192}, "--lr 0.1 (peak now 1e-05)"),
        ({"lr": 0.8, "batch_size": 8192}, "--lr 0.1 (peak now 0.8)"),
        ({"lr": 0.1, "lr_scaling": "linear", "batch_size": 8192}, "--max-lr 0.1 (peak now 3.2)"),
        ({"batch_size": 8192}, "--batch-size 2048 or --epochs 36"),
        ({"lr": 1e-5}, "--lr 0.05 (peak now 1e-05)"),
        ({"lr": 1e-5, "lr_scaling": "linear"}, "--lr 0.2 --max-lr 0.1 (peak now 2.5e-06)"),
        ({"lr": 1e-5, "lr_scaling": "linear", "batch_size": 1024}, "--lr 0.2 --max-lr 0.1 (peak now 4e-05)"),
        (
            {"lr": 1e-3, "lr_scaling": "linear", "lr_base_batch": 99999},
            "--lr 0.2 --lr-base-batch 256 --max-lr 0.1 (peak now 6.4e-07)",
        ),
        ({"lr_base_batch": 100_000}, "--lr-base-batch 256 (peak now 0.000128)"),
        ({"max_lr": 1e-6}, "--max-lr 0.1 (peak now 1e-06)"),
        ({"optimizer": "adamw", "max_lr": 1e-6}, "--max-lr 0.008 (peak now 1e-06)"),
        (
            {"optimizer": "adamw", "lr_scaling": "linear", "batch_size": 2},
            "--lr-scaling sqrt --max-lr 0.008 (peak now 3.125e-05)",
        ),
        ({"warmup_from": 500}, "--warmup-from 0.05 (peak now 500)"),
        ({"lr": 0.2, "lr_scaling": "linear", "batch_size": 512}, "--max-lr 0.1 (peak now 0.4)"),
        ({"lr_scaling": "none", "lr": None}, "--lr 0.05 (peak now 0.2)"),
    ],
)
def test_run_at_chance_gets_a_higher_learning_rate_or_more_updates_or_a_lower_learning_rate(
    given: dict[str, Any], option: str
) -> None:
    assert against_chance(*planned(**given)) == option


@pytest.mark.parametrize(
    ("images", "processes", "given", "options"),
    [
        (12_000, 1, {"epochs": 3}, None),
        (12_000, 1, {"epochs": 3, "batch_size": 4096}, "--batch-size 128"),
        (12_000, 1, {"epochs": 3, "batch_size": 256}, "--batch-size 128 or --epochs 6"),
        (12_000, 4, {"epochs": 3, "batch_size": 1024}, "--batch-size 32"),
        (12_000, 1, {"epochs": 3, "batch_size": 64, "accumulate": 64}, "--accumulate 2"),
        (12_000, 2, {"epochs": 3, "batch_size": 512, "accumulate": 4}, "--batch-size 64 --accumulate 1"),
        (12_000, 1, {"epochs": 3, "global_batch_size": 4096}, "--global-batch-size 128"),
        (
            12_000,
            1,
            {"epochs": 3, "global_batch_size": 4096, "batch_size": 2048},
            "--global-batch-size 128 --batch-size 128",
        ),
        (12_000, 2, {"epochs": 3, "global_batch_size": 4096}, "--global-batch-size 128 --batch-size 64"),
        (1_438, 1, {"epochs": 1, "batch_size": 64}, "--epochs 12"),
        (1_438, 1, {"epochs": 5, "batch_size": 1024}, "--batch-size 16"),
        (1_438, 8, {"epochs": 20, "batch_size": 64}, "--batch-size 32 --epochs 50"),
        (1_438, 8, {"epochs": 2, "batch_size": 64}, "--batch-size 32 --epochs 50"),
        (60, 1, {"epochs": 10, "batch_size": 60}, "--batch-size 16 --epochs 84"),
        (1_000_000, 1, {"epochs": 90, "batch_size": 262_144}, "--batch-size 131072"),
    ],
)
def test_options_for_more_updates(images: int, processes: int, given: dict[str, Any], options: str | None) -> None:
    assert more_updates(*planned(images, processes, **given)) == options


def followed(given: dict[str, Any], options: str) -> dict[str, Any]:
    words = options.split()
    return given | {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }


@pytest.mark.parametrize("seed", range(4))
def test_options_that_are_followed_give_enough_updates(seed: int) -> None:
    draw, proposed = random.Random(seed), 0
    for _ in range(1500):
        images, processes = draw.choice((100, 280, 1438, 12_000, 60_000)), draw.choice((1, 2, 3, 4, 8))
        given: dict[str, Any] = {"epochs": draw.choice((1, 3, 10, 90))}
        if draw.random() < 0.5:
            given["global_batch_size"] = processes * draw.choice((16, 48, 64, 100, 512, 4096))
        else:
            given |= {"batch_size": draw.choice((2, 16, 30, 64, 512, 4096)), "accumulate": draw.choice((None, 1, 3, 8))}
        try:
            config, plan = planned(images, processes, **given)
        except UserError:  # larger than the data, or not to be shared
            continue
        options = more_updates(config, plan)
        for alternative in options.split(" or ") if options else ():
            proposed += 1
            after = planned(images, processes, **followed(given, alternative))[1]
            most = max(1, images // (16 * processes))  # of what an epoch can have
            assert after.total_updates >= MIN_UPDATES, (given, processes, images, options)
            assert after.updates_per_epoch >= min(MIN_UPDATES_PER_EPOCH, most), (given, processes, images, options)
    assert proposed > 100


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({}, "--augment standard, --weight-decay 0.002 (now 0.0005), --label-smoothing 0.1 or more images"),
        (
            {"augment": "standard", "weight_decay": 0},
            "--augment strong, --weight-decay 0.0005 (now 0), --label-smoothing 0.1 or more images",
        ),
        ({"augment": "strong", "weight_decay": 0.002, "label_smoothing": 0.1, "limit": 99}, "a larger --limit"),
        (
            {"optimizer": "adamw", "label_smoothing": 0.2},
            "--augment standard, --weight-decay 0.2 (now 0.05) or more images",
        ),
    ],
)
def test_memorizing_is_met_by_what_is_not_used_yet(given: dict[str, Any], options: str) -> None:
    assert against_memorizing(planned(**given)[0]) == options


RATES: dict[str, tuple[Any, ...]] = {
    "optimizer": ("sgd", "adamw"),
    "model": ("cnn", "resnet18", "vgg11", "wide_resnet_10_1"),
    "batch_size": (2, 16, 100, 256, 1024, 5000),
    "lr": (1e-9, 1e-4, 0.003, 0.05, 0.3, 50.0),
    "lr_scaling": ("none", "linear", "sqrt"),
    "lr_base_batch": (1, 64, 8192, 1_000_000_000),
    "max_lr": (1e-9, 1e-4, 0.05, 50.0),
    "warmup_from": (0.0, 1e-4, 0.05, 50.0),
}


@pytest.mark.parametrize("seed", range(4))
def test_learning_rates_that_are_proposed_can_be_followed_and_have_no_note_against_them(seed: int) -> None:
    draw, proposed = random.Random(seed), 0
    for _ in range(3000):
        names = draw.sample(sorted(RATES), draw.choice((1, 2, 3, 4, 5)))
        given = {name: draw.choice(RATES[name]) for name in names}
        try:
            config, plan = planned(**given)
        except UserError:  # of options that do not go together
            continue
        for hint in (against_chance(config, plan), after_divergence(config, plan, 5000).removeprefix("try ")):
            options = hint.partition(" (")[0].partition(" or --clip")[0]
            if "-lr" not in options and "--warmup-from" not in options:
                continue
            proposed += 1
            after, new = planned(**followed(given, options))
            before, now = plan.learning_rate, new.learning_rate
            usual = OPTIMIZERS[after.optimizer].usual_peak(after.usual_rate, new.global_batch)
            assert now != before, (given, hint)
            assert now.peak <= before.peak or high_rate(after, new) == (), (given, hint)
            assert now.highest < before.highest or now.peak >= usual / 2, (given, hint)
    assert proposed > 1000


@pytest.mark.parametrize(
    ("given", "processes", "most", "options"),
    [
        ({"batch_size": 64, "accumulate": 16}, 1, 300, "--accumulate 4"),
        ({"batch_size": 64, "accumulate": 16}, 1, 20, "--batch-size 16 --accumulate 1"),
        ({"batch_size": 64, "accumulate": 16}, 1, 2, "--batch-size 16 --accumulate 1"),  # as few as there can be
        ({"batch_size": 64, "global_batch_size": 1024}, 2, 300, "--global-batch-size 256 --batch-size 64"),
        ({"batch_size": 16}, 2, 8, None),
    ],
)
def test_options_for_a_smaller_batch(given: dict[str, Any], processes: int, most: float, options: str | None) -> None:
    assert smaller_batch(*planned(processes=processes, **given), most) == options
