"""The same finding of several processes is one finding."""

from dataclasses import asdict, replace

from accel_train.doctor.finding import Finding, merged
from accel_train.errors import UserError

FULL = Finding("run folder", "it is full", "free some space")
SLOW = Finding("slow rank", "it is slow", "leave it out", fails=False)


def test_findings_are_merged_with_failures_first() -> None:
    made = [replace(SLOW, ranks=(1,)), replace(FULL, ranks=(2,)), replace(FULL, ranks=(0,)), FULL]
    assert merged(made) == [replace(FULL, ranks=(0, 2)), replace(SLOW, ranks=(1,))]


def test_finding_is_read_from_its_json() -> None:
    one = replace(FULL, ranks=(3,))
    assert Finding.read({**asdict(one), "ranks": [3]}) == one


def test_error_becomes_a_finding() -> None:
    assert Finding.of("run folder", UserError("it is full", "free some space")) == FULL
