"""The schedules are torch's; a stage that waits is always ahead of the stage for which it waits."""

from itertools import product

import pytest
from torch.distributed.pipelining import Schedule1F1B

from accel_train.distributed.strategies.pipeline_schedule import SCHEDULES, Pass, Progress, passes, timetable

SIZES = [*product(SCHEDULES, (2, 3, 4), (1, 2, 3, 4, 8))]


@pytest.mark.parametrize(
    ("schedule", "stage", "expected"),
    [
        ("gpipe", 0, "F0 F1 F2 F3 B0 B1 B2 B3"),
        ("gpipe", 1, "F0 F1 F2 F3 B0 B1 B2 B3"),
        ("1f1b", 0, "F0 F1 B0 F2 B1 F3 B2 B3"),
        ("1f1b", 1, "F0 B0 F1 B1 F2 B2 F3 B3"),
    ],
)
def test_passes_of_two_stages_and_four_micro_batches(schedule: str, stage: int, expected: str) -> None:
    assert " ".join(f"{kind[0].upper()}{m}" for kind, m in passes(schedule, stage, 2, 4)) == expected


@pytest.mark.parametrize(("schedule", "stages", "micro_batches"), SIZES)
def test_timetable_takes_as_long_as_the_formula_says(schedule: str, stages: int, micro_batches: int) -> None:
    found = timetable(schedule, stages, micro_batches)
    length = 1 + max(max(times.values()) for times in found)
    assert length == 2 * (micro_batches + stages - 1)
    for stage, times in enumerate(found):
        assert list(times) == passes(schedule, stage, stages, micro_batches)
        assert len(set(times.values())) == 2 * micro_batches  # one pass at a time


@pytest.mark.parametrize(("schedule", "stages", "micro_batches"), SIZES)
def test_waiting_stage_is_ahead_of_the_one_it_waits_for(schedule: str, stages: int, micro_batches: int) -> None:
    """Whichever pass hangs: the other stages go on as far as they can, then wait."""
    times = timetable(schedule, stages, micro_batches)
    orders = [passes(schedule, stage, stages, micro_batches) for stage in range(stages)]
    for hung, number in product(range(stages), range(2 * micro_batches)):
        done = _possible(orders, hung, number)
        current = [
            times[stage].get(order[n])
            for stage, (order, n) in enumerate(zip(orders, done, strict=True))
            if n < len(order)
        ]
        own = times[hung][orders[hung][number]]
        assert sorted(t for t in current if t is not None and t <= own) == [own]  # its own only


def _possible(orders: list[list[Pass]], hung: int, blocked: int) -> list[int]:
    """Return how many passes each stage can make if one pass of a stage never ends."""
    done = [0] * len(orders)
    made: set[tuple[int, Pass]] = set()
    moved = True
    while moved:
        moved = False
        for stage, order in enumerate(orders):
            if done[stage] == len(order) or (stage == hung and done[stage] == blocked):
                continue
            kind, m = order[done[stage]]
            source = stage + (1 if kind == "backward" else -1)
            if not 0 <= source < len(orders) or (source, (kind, m)) in made:
                made.add((stage, (kind, m)))
                done[stage] += 1
                moved = True
    return done


def test_progress_ticks_as_often_as_the_timetable_says() -> None:
    ticks: list[int] = []
    progress = Progress({("forward", 0): 1, ("backward", 0): 2}, 4, lambda: ticks.append(0))
    counts = []
    for _ in range(2):
        progress.waits_for("forward", 0)
        counts.append(len(ticks))
        progress.has_made("forward", 0)
        counts.append(len(ticks))
        progress.waits_for("backward", 0)
        progress.has_made("backward", 0)
        counts.append(len(ticks))
        progress.ends_update()
        counts.append(len(ticks))
    assert counts == [2, 3, 5, 8, 10, 11, 13, 16]


def test_1f1b_takes_fewer_micro_batches_than_stages() -> None:
    assert issubclass(SCHEDULES["1f1b"], Schedule1F1B)
    assert SCHEDULES["1f1b"].__init__ is not Schedule1F1B.__init__
