"""The schedules of a pipeline: in which order each stage passes the micro-batches of an update."""

from collections.abc import Callable
from typing import Any, Literal

from torch.distributed.pipelining import Schedule1F1B, ScheduleGPipe
from torch.distributed.pipelining.schedules import PipelineScheduleSingle

Pass = tuple[Literal["forward", "backward"], int]
"""A pass, and the number of the replica's micro-batch."""


class OneForwardOneBackward(Schedule1F1B):
    """1F1B, also for fewer micro-batches than stages, which torch refuses though it runs them right (2.14)."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        PipelineScheduleSingle.__init__(self, *arguments, **options)


SCHEDULES: dict[str, type[PipelineScheduleSingle]] = {"1f1b": OneForwardOneBackward, "gpipe": ScheduleGPipe}
"""By the value of ``--pipeline-schedule``."""


def passes(schedule: str, stage: int, stages: int, micro_batches: int) -> list[Pass]:
    """Return the passes of a stage in order, as torch runs them."""
    ahead = micro_batches if schedule == "gpipe" else min(micro_batches, stages - stage)
    order: list[Pass] = [("forward", m) for m in range(ahead)]
    for m in range(micro_batches):
        order.append(("backward", m))
        order += [("forward", ahead + m)] * (ahead + m < micro_batches)
    return order


def timetable(schedule: str, stages: int, micro_batches: int) -> list[dict[Pass, int]]:
    """Return when each stage makes each pass if all take one unit of time, counted from 0."""
    orders = [passes(schedule, stage, stages, micro_batches) for stage in range(stages)]
    found: list[dict[Pass, int]] = [{} for _ in range(stages)]
    while any(len(times) < len(order) for times, order in zip(found, orders, strict=True)):
        for stage, order in enumerate(orders):
            kind, m = order[min(len(found[stage]), len(order) - 1)]
            source = stage + (1 if kind == "backward" else -1)
            ready = found[source].get((kind, m)) if 0 <= source < stages else -1
            if (kind, m) not in found[stage] and ready is not None:
                found[stage][kind, m] = 1 + max(ready, max(found[stage].values(), default=-1))
    return found


class Progress:
    """Counts how far a stage is in an update, so that a stage that waits is always ahead of that for which it waits."""

    def __init__(self, times: dict[Pass, int], end: int, tick: Callable[[], None]) -> None:
        """Call `tick` twice per unit of a stage's timetable: before it may wait for a pass, and after the pass."""
        self._times = times
        self._end = 2 * end
        self._tick = tick
        self._ticks = 0

    def waits_for(self, kind: Literal["forward", "backward"], m: int) -> None:
        self._tick_to(2 * self._times[kind, m])

    def has_made(self, kind: Literal["forward", "backward"], m: int) -> None:
        self._tick_to(2 * self._times[kind, m] + 1)

    def ends_update(self) -> None:
        self._tick_to(self._end)
        self._ticks = 0

    def _tick_to(self, ticks: int) -> None:
        for _ in range(self._ticks, ticks):
            self._tick()
        self._ticks = max(self._ticks, ticks)
