"""Batches, updates and learning rates follow from config and processes; sizes that do not fit are refused."""

import math
from dataclasses import replace
from typing import Any

import pytest

from accel_train.config.options import ResolvedConfig
from accel_train.config.plan import Plan, divide, make_plan
from accel_train.errors import UserError

RESOLVED: dict[str, Any] = {
    **{"model": "cnn", "augment": "none", "batch_size": 32, "epochs": 10, "optimizer": "sgd", "lr": 0.1},
    **{"lr_scaling": "none", "warmup_epochs": 0, "weight_decay": 0, "precision": "fp32"},
}


def plan(processes: int = 1, images: int = 10_000, stages: int = 1, **given: Any) -> Plan:
    return make_plan(ResolvedConfig(**{**RESOLVED, **given}), processes, images, stages=stages)


def refusal(processes: int = 1, images: int = 10_000, stages: int = 1, **given: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        plan(processes, images, stages, **given)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("given", "processes", "global_batch", "accumulate", "micro_batches"),
    [
        ({}, 1, 32, 1, 1),
        ({}, 4, 128, 1, 4),
        ({"accumulate": 2}, 2, 128, 2, 4),
        ({"accumulate": 3, "batch_size": 5}, 2, 30, 3, 6),
        ({"global_batch_size": 128}, 1, 128, 4, 4),
        ({"global_batch_size": 128}, 2, 128, 2, 4),
        ({"global_batch_size": 128}, 4, 128, 1, 4),
        ({"global_batch_size": 192}, 3, 192, 2, 6),
        ({"global_batch_size": 128, "accumulate": 2}, 2, 128, 2, 4),
        ({"global_batch_size": 32}, 1, 32, 1, 1),
    ],
)
def test_global_batch_is_a_product_or_is_given(
    given: dict[str, int], processes: int, global_batch: int, accumulate: int, micro_batches: int
) -> None:
    made = plan(processes, **given)
    assert (made.global_batch, made.accumulate, made.micro_batches) == (global_batch, accumulate, micro_batches)
    assert made.processes == processes
    assert made.batch_size * made.processes * made.accumulate == made.global_batch


@pytest.mark.parametrize(
    ("images", "updates_per_epoch", "dropped"), [(1437, 22, 29), (128, 2, 0), (127, 1, 63), (64, 1, 0)]
)
def test_incomplete_last_batch_is_dropped(images: int, updates_per_epoch: int, dropped: int) -> None:
    made = plan(processes=2, images=images)
    assert (made.updates_per_epoch, made.images_dropped) == (updates_per_epoch, dropped)
    assert made.total_updates == made.learning_rate.total_updates == 10 * updates_per_epoch


def test_global_batch_of_half_the_base_batch_scales_the_learning_rate() -> None:
    given = {"accumulate": 2, "lr_base_batch": 256}
    assert plan(2, **given, lr_scaling="linear").learning_rate.peak == pytest.approx(0.05, rel=1e-12)
    assert plan(2, **given, lr_scaling="sqrt").learning_rate.peak == pytest.approx(0.1 / math.sqrt(2), rel=1e-12)
    assert plan(2, accumulate=2).learning_rate.peak == 0.1


@pytest.mark.parametrize("processes", [1, 2, 3, 6])
def test_learning_rate_depends_on_the_global_batch_and_not_on_processes(processes: int) -> None:
    given = {"lr_scaling": "linear", "lr_base_batch": 64, "warmup_epochs": 2}
    assert plan(processes, global_batch_size=192, **given).learning_rate == plan(6, **given).learning_rate


def test_sqrt_scaling_of_sgd_leaves_the_betas() -> None:
    made = plan(8, lr_scaling="sqrt", lr_base_batch=64)
    assert (made.betas, made.eps) == ((0.9, 0.999), 1e-8)


@pytest.mark.parametrize(
    ("processes", "rate", "betas", "eps"),
    [(8, 0.1, (0.9, 0.999), 1e-8), (32, 0.2, (0.6, 0.996), 5e-9), (2, 0.05, (0.975, 0.99975), 2e-8)],
)
def test_sqrt_scaling_of_adamw_scales_betas_and_epsilon(
    processes: int, rate: float, betas: tuple[float, float], eps: float
) -> None:
    """Malladi et al. 2022: 1 - beta grows with the batch size, epsilon falls with its square root."""
    made = plan(processes, optimizer="adamw", lr_scaling="sqrt", lr_base_batch=256)
    assert made.learning_rate.peak == pytest.approx(rate, rel=1e-12)
    assert made.betas == pytest.approx(betas, rel=1e-12)
    assert made.eps == pytest.approx(eps, rel=1e-12)


def test_sqrt_scaling_is_refused_beyond_its_limit() -> None:
    given = {"optimizer": "adamw", "lr_scaling": "sqrt", "lr_base_batch": 256}
    assert plan(40, **given).betas[0] == pytest.approx(0.5)
    message, hint = refusal(41, **given)
    assert message == "the sqrt scaling rule cannot take adamw from 256 to 1312 images per update"
    assert hint == "use at most 1280 images per update, --max-lr 0.008, or --lr-scaling none"


@pytest.mark.parametrize(
    ("scaling", "processes", "peak"),
    [("linear", 1, 0.05), ("linear", 4, 0.2), ("linear", 5, 0.2), ("linear", 64, 0.2), ("sqrt", 16, 0.2)],
)
def test_scaling_stops_at_max_lr(scaling: str, processes: int, peak: float) -> None:
    given = {"lr_scaling": scaling, "lr_base_batch": 64, "max_lr": 0.2}
    assert plan(processes, **given).learning_rate.peak == pytest.approx(peak, rel=1e-12)


def test_max_lr_limits_the_scaling_of_betas_too() -> None:
    """Beyond the limit a run has the settings of the batch at which the limit is reached."""
    given = {"optimizer": "adamw", "lr_scaling": "sqrt", "lr_base_batch": 256}
    largest, beyond = plan(32, **given), plan(300, max_lr=0.2, **given)
    assert beyond.learning_rate.peak == largest.learning_rate.peak == 0.2
    assert beyond.betas == pytest.approx(largest.betas, rel=1e-12)
    assert beyond.eps == pytest.approx(largest.eps, rel=1e-12)


def test_max_lr_below_the_base_rate_leaves_betas_alone() -> None:
    """There is no batch for which the rule would give so low a rate with betas that learn."""
    given = {"optimizer": "adamw", "lr_scaling": "sqrt", "lr_base_batch": 256}
    for max_lr in (0.01, 1e-14, 1e-300):
        low = plan(16, max_lr=max_lr, **given)
        assert low.learning_rate.peak == max_lr
        assert (low.betas, low.eps) == ((0.9, 0.999), 1e-8)


def test_infinite_learning_rate_is_refused() -> None:
    message, hint = refusal(64, lr=1e308, lr_scaling="linear", lr_base_batch=256)
    assert message == "--lr 1e+308 at 256 images per update is infinite at 2048"
    assert hint == "use a lower --lr, or --lr-scaling none"


def test_max_lr_that_is_not_reached_changes_nothing() -> None:
    given = {"optimizer": "adamw", "lr_scaling": "sqrt", "lr_base_batch": 256}
    assert plan(3, max_lr=0.2, **given) == plan(3, **given)


@pytest.mark.parametrize(("rule", "expected"), [("none", (0.9, 0.999)), ("linear", (0.9, 0.999))])
def test_other_scalings_leave_the_betas(rule: str, expected: tuple[float, float]) -> None:
    base = {"lr_base_batch": 64} if rule != "none" else {}
    assert plan(8, optimizer="adamw", lr_scaling=rule, **base).betas == expected


@pytest.mark.parametrize(("size", "suggestion"), [(100, 96), (113, 128), (20, 32), (33, 32)])
def test_global_batch_that_is_not_a_multiple_is_refused(size: int, suggestion: int) -> None:
    message, hint = refusal(global_batch_size=size)
    assert message == f"--global-batch-size {size} is not a multiple of --batch-size 32"
    assert hint == f"choose a multiple, such as {suggestion}"


@pytest.mark.parametrize(
    ("processes", "size", "micro_batches", "hint"),
    [
        (2, 32, "one micro-batch", "use --batch-size 16, or 1 process"),
        (3, 64, "2 micro-batches", "use --batch-size 16, or 2 processes"),
        (8, 192, "6 micro-batches", "use --batch-size 24, or 6 processes"),
        (40, 32, "one micro-batch", "use --global-batch-size 1280 --batch-size 32, or 1 process"),
    ],
)
def test_more_processes_than_micro_batches_are_refused(
    processes: int, size: int, micro_batches: str, hint: str
) -> None:
    message, found = refusal(processes, global_batch_size=size)
    assert message == f"{processes} processes cannot share {micro_batches} of 32 (--global-batch-size {size})"
    assert found == hint


def test_replicas_of_several_stages_share_the_micro_batches() -> None:
    made = plan(6, stages=2, global_batch_size=256)
    assert (made.replicas, made.micro_batches, made.blocks) == (3, 8, (range(3), range(3, 6), range(6, 8)))
    assert plan(4, stages=4, accumulate=3).global_batch == 3 * 32
    assert plan(4, stages=2, accumulate=3).global_batch == 2 * 3 * 32
    message, hint = refusal(6, stages=2, global_batch_size=64)
    assert message == "3 replicas cannot share 2 micro-batches of 32 (--global-batch-size 64)"
    assert hint == "use --batch-size 16, or 4 processes"
    message, hint = refusal(4, stages=4, global_batch_size=192, accumulate=2)
    assert message == "--accumulate 2 × 1 replica × --batch-size 32 is not --global-batch-size 192"
    assert "(6 per replica)" in hint
    _, hint = refusal(8, images=2, stages=2)
    assert hint == "use at most 4 processes"


def test_accumulate_that_contradicts_the_global_batch_is_refused() -> None:
    message, hint = refusal(2, global_batch_size=192, accumulate=2)
    assert message == "--accumulate 2 × 2 processes × --batch-size 32 is not --global-batch-size 192"
    assert "(3 per process)" in hint


def test_accumulate_cannot_be_given_where_processes_have_different_shares() -> None:
    message, hint = refusal(4, global_batch_size=192, accumulate=2)
    assert message == "--accumulate 2 × 4 processes × --batch-size 32 is not --global-batch-size 192"
    assert "(1.5 per process)" in hint


@pytest.mark.parametrize("micro_batches", range(1, 20))
def test_blocks_cover_the_micro_batches_in_order_and_differ_by_one_at_most(micro_batches: int) -> None:
    for replicas in range(1, micro_batches + 1):
        blocks = divide(micro_batches, replicas)
        assert [index for block in blocks for index in block] == list(range(micro_batches))
        lengths = [len(block) for block in blocks]
        assert lengths == sorted(lengths, reverse=True)
        assert lengths[0] - lengths[-1] <= 1


def test_plan_does_not_depend_on_the_number_of_processes() -> None:
    plans = [plan(processes, global_batch_size=256) for processes in range(1, 9)]
    for processes, found in enumerate(plans, start=1):
        assert replace(found, processes=1) == plans[0]
        assert found.accumulate == -(-8 // processes)


@pytest.mark.parametrize(
    ("given", "processes", "images", "hint"),
    [
        ({}, 1, 31, "use --batch-size 31 or less"),
        ({}, 2, 63, "use --batch-size 31 or less (2 micro-batches per update)"),
        ({"accumulate": 3}, 2, 100, "use --batch-size 16 or less (6 micro-batches per update)"),
        ({}, 5, 4, "use at most 4 processes"),
        ({"accumulate": 3}, 5, 14, "use --accumulate 2 or less"),
        ({"global_batch_size": 320}, 2, 100, "use --global-batch-size 64"),
        ({"global_batch_size": 320}, 2, 21, "use --global-batch-size 20 --batch-size 10"),
        ({"global_batch_size": 320}, 5, 4, "use at most 4 processes"),
    ],
)
def test_global_batch_larger_than_the_data_is_refused(
    given: dict[str, Any], processes: int, images: int, hint: str
) -> None:
    global_batch = given.get("global_batch_size", 32 * processes * given.get("accumulate", 1))
    assert plan(processes, images=global_batch, **given).updates_per_epoch == 1
    message, found = refusal(processes, images=images, **given)
    assert message == f"the global batch of {global_batch} images is larger than the {images} training images"
    assert found == hint


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"lr_scaling": "linear", "lr_base_batch": 16}, 0.1),  # raised to 0.2: starts from the unscaled one
        ({"lr_scaling": "linear", "lr_base_batch": 64}, 0.0005),  # lowered to 0.05: 1 % of it
        ({}, 0.001),
        ({"warmup_from": 0.03}, 0.03),
        ({"warmup_from": 0.0}, 0.0),
    ],
)
def test_start_of_warmup(given: dict[str, Any], expected: float) -> None:
    rate = plan(warmup_epochs=2, **given).learning_rate
    assert rate.warmup_from == rate(0) == pytest.approx(expected, rel=1e-12)


def test_warmup_and_milestones_are_converted_to_updates() -> None:
    made = plan(images=320, warmup_epochs=0.25, schedule="step", milestones=[3, 7.5], gamma=0.2)
    assert made.updates_per_epoch == 10
    assert (made.learning_rate.warmup_updates, made.learning_rate.milestones) == (2, (30, 75))
    assert [made.learning_rate(u) for u in (29, 30, 75)] == pytest.approx([0.1, 0.02, 0.004], rel=1e-12)


@pytest.mark.parametrize("warmup", [10, 12.5])
def test_warmup_as_long_as_the_run_is_refused(warmup: float) -> None:
    message, _ = refusal(warmup_epochs=warmup)
    assert message == f"--warmup-epochs {warmup:g} must be less than the 10 epochs of the run"


def test_other_batch_size_keeps_the_global_batch_and_all_that_follows() -> None:
    made = plan(2, batch_size=8, accumulate=6, lr_scaling="linear", lr_base_batch=64)
    changed = made.with_batch_size(16)
    assert (changed.batch_size, changed.accumulate, changed.micro_batches) == (16, 3, 6)
    assert replace(changed, batch_size=8) == made
    with pytest.raises(AssertionError):
        made.with_batch_size(36)


def test_given_batch_size_replaces_the_one_of_the_config_and_accumulate() -> None:
    config = ResolvedConfig(**{**RESOLVED, "global_batch_size": 96, "accumulate": 5})
    made = make_plan(config, 2, 10_000, batch_size=1)
    assert (made.batch_size, made.accumulate, made.global_batch) == (1, 48, 96)
    assert make_plan(config.model_copy(update={"accumulate": None}), 3, 10_000).with_batch_size(16).accumulate == 2
