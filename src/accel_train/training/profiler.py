"""Profiles a few updates of a run."""

import gc
import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from accel_train.distributed import process_group
from accel_train.errors import UserError
from accel_train.events import Event, Notice, PhaseTimes, Profiled, UpdateDone
from accel_train.training.phase_times import Interval, phase_times
from accel_train.training.timing import Meter, unmarked

_SKIPPED = 8
"""Updates in which kernels are chosen and memory is first taken."""
_WARM_UP = 2
"""Of the profiler itself."""
_RECORDED = 10
_NEEDED = _SKIPPED + _WARM_UP + _RECORDED
_PHASES = ("data wait", "forward", "backward", "optimizer", "validation")
_ORDER = ("data wait", "forward", "backward", "optimizer", "communication", "other")
"""Of the fields of :class:`PhaseTimes`."""


def check_length(updates: int) -> None:
    """Refuse to profile a run that is too short.

    Raises:
        UserError: it has fewer updates than a profile takes.
    """
    if updates < _NEEDED:
        raise UserError(
            f"--profile takes {_NEEDED} updates, and the run has {updates}", "add --epochs, or take a smaller batch"
        )


def profiled(
    events: Iterator[Event], meter: Meter, group: Any, device: torch.device, folder: Path
) -> Generator[Event, None, None]:
    """Collective: pass a run's events on, and profile some of its first updates into traces in `folder`.

    What is computed stays the same, to the last bit. A run that ends in the midst of it says that it was not profiled.
    """
    yield from _until_updates(events, _SKIPPED)
    with meter.leaving_out():
        yield from _recorded(events, meter, group, device, folder)
        gc.collect()  # of what was recorded, before it is in the way of the rest
    yield from events


def _recorded(events: Iterator[Event], meter: Meter, group: Any, device: torch.device, folder: Path) -> Iterator[Event]:
    """Collective: pass on the events of the updates that are profiled, then what was found."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it reports on stderr that there is no GPU
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    plan = schedule(wait=0, warmup=_WARM_UP, active=_RECORDED, repeat=1)
    meter.mark = record_function
    try:
        with profile(activities=activities, schedule=plan, acc_events=True) as profiler:
            last = None
            for event in _until_updates(events, _WARM_UP + _RECORDED):
                last = event
                yield event
                if isinstance(event, UpdateDone):
                    profiler.step()
    finally:
        meter.mark = unmarked
    if isinstance(last, UpdateDone) and profiler.step_num == _WARM_UP + _RECORDED:
        yield _summary(profiler, last.update, group, device, folder)
    else:
        yield Notice(f"--profile: nothing was profiled, as the run had fewer than {_NEEDED} updates left")


def _until_updates(events: Iterator[Event], updates: int) -> Iterator[Event]:
    done = count(1)
    for event in events:
        yield event
        if isinstance(event, UpdateDone) and next(done) == updates:
            return


def _summary(profiler: profile, update: int, group: Any, device: torch.device, folder: Path) -> Profiled:
    """Collective: write this process's trace, and return the times of all processes."""
    folder.mkdir(parents=True, exist_ok=True)
    rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
    profiler.export_chrome_trace(str(folder / f"rank_{rank}.json.gz"))
    times = _times(profiler, device)
    everyones = process_group.exchange(group, [round(times[name]) for name in _ORDER])
    ranks = tuple(PhaseTimes(*(us / 1000 / _RECORDED for us in each)) for each in everyones)
    slowest = max(range(len(ranks)), key=lambda rank: ranks[rank].own)
    return Profiled(update - _RECORDED + 1, update, ranks, slowest, str(folder))


def _times(profiler: profile, device: torch.device) -> dict[str, float]:
    """Sort what the profiler has recorded; return microseconds.

    On a GPU kernels and marks count as they ran there, on a CPU as operators ran in the thread of the loop.
    """
    kind = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    events = profiler.events()  # type: ignore[no-untyped-call]
    loop = next(event.thread for event in events if event.name == "forward")
    marks: dict[str, list[Interval]] = defaultdict(list)
    communication: list[Interval] = []
    computation: list[Interval] = []
    for event in events:
        span = (event.time_range.start, event.time_range.end)
        if event.name in _PHASES and event.device_type == (DeviceType.CPU if event.name == "data wait" else kind):
            marks[event.name].append(span)
        elif event.device_type == kind and event.name.startswith(("gloo:", "nccl")):
            communication.append(span)
        elif _computes(event, kind, loop):
            computation.append(span)
    return phase_times(marks, communication, computation)


def _computes(event: Any, kind: DeviceType, loop: int) -> bool:
    if event.device_type != kind or event.is_user_annotation or event.name.startswith("c10d::"):
        return False
    return kind == DeviceType.CUDA or event.thread == loop
