"""Recorded values are checked against recomputed ones to the last bit."""

import math

from helpers.histories import progress

from accel_train.history.checks import Check, differing, progress_checks


def test_numbers_of_an_update_are_checked_in_the_order_of_cause_and_effect() -> None:
    recorded, replayed = progress(5), progress(5, local_loss=2.0, gradient_norm=0.5)
    checks = list(progress_checks(recorded, replayed, same_processes=True))
    assert [(check.quantity, check.agrees) for check in checks] == [
        ("learning rate", True),
        ("images", True),
        ("loss", False),
        ("gradient norm", False),
    ]
    assert differing(checks) == Check(5, "loss", 1.5, 2.0)


def test_numbers_of_one_process_are_not_checked_against_another_number_of_processes() -> None:
    checks = progress_checks(progress(5), progress(5, local_loss=2.0, local_ids_hash="1"), same_processes=False)
    assert [(check.quantity, check.agrees) for check in checks] == [("learning rate", True), ("gradient norm", True)]


def test_earliest_difference_is_found_in_any_order() -> None:
    checks = [Check(9, "loss", 1.0, 2.0), Check(5, "weights", "a", "b"), Check(3, "loss", 1.0, 1.0)]
    assert differing(checks) == checks[1]
    assert differing(checks[2:]) is None


def test_numbers_that_are_not_finite_agree() -> None:
    assert Check(1, "loss", math.nan, math.inf).agrees
    assert not Check(1, "loss", math.nan, 1.0).agrees
    assert not Check(1, "loss", 1.0, math.nextafter(1.0, 2.0)).agrees
