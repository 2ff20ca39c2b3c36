"""Profiles ten updates of a run and writes a trace."""

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
from accel_train.distributed.environment import launched_rank
from accel_train.errors import UserError
from accel_train.events import Event, Notice, PhaseTimes, Profiled, UpdateDone
from accel_train.system.atomic_files import remove
from accel_train.training.phase_times import Interval, phase_times
from accel_train.training.timing import Timing, no_span

_SKIPPED = 8
"""Updates before the profiler starts: they choose kernels and allocate memory."""
_WARM_UP = 2
"""Updates for the profiler to warm up."""
_RECORDED = 10
_NEEDED = _SKIPPED + _WARM_UP + _RECORDED
_PHASES = ("data wait", "forward", "backward", "optimizer", "validation")
_ORDER = ("data wait", "forward", "backward", "optimizer", "communication", "other")
"""The fields of :class:`PhaseTimes`, in order."""


def check_length(updates: int) -> None:
    """Check that a run is long enough to be profiled.

    Raises:
        UserError: it has too few updates.
    """
    if updates < _NEEDED:
        raise UserError(
            f"--profile needs {_NEEDED} updates, but the run has {updates}", "add --epochs, or lower the batch size"
        )


def profiled(
    events: Iterator[Event], timing: Timing, group: Any, device: torch.device, folder: Path
) -> Generator[Event, None, None]:
    """Collective: yield a run's events, and profile some of its first updates into traces in `folder`.

    Results are bit-identical to those without a profile. If the run ends before the profile, a notice is yielded.
    """
    yield from _until_updates(events, _SKIPPED)
    with timing.excluded():
        yield from _recorded(events, timing, group, device, folder)
        gc.collect()  # free the recorded events now: they slow the rest of the run
    yield from events


def _recorded(
    events: Iterator[Event], timing: Timing, group: Any, device: torch.device, folder: Path
) -> Iterator[Event]:
    """Collective: yield the events of the profiled updates, then the profile."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else it prints to stderr that there is no GPU
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    plan = schedule(wait=0, warmup=_WARM_UP, active=_RECORDED, repeat=1)
    timing.span = record_function
    try:
        with profile(activities=activities, schedule=plan, acc_events=True) as profiler:
            last = None
            for event in _until_updates(events, _WARM_UP + _RECORDED):
                last = event
                yield event
                if isinstance(event, UpdateDone):
                    profiler.step()
    finally:
        timing.span = no_span
    if isinstance(last, UpdateDone) and profiler.step_num == _WARM_UP + _RECORDED:
        yield _summary(profiler, last.update, group, device, folder)
    else:
        yield Notice(f"--profile: nothing was profiled: fewer than {_NEEDED} updates were left")


def _until_updates(events: Iterator[Event], updates: int) -> Iterator[Event]:
    done = count(1)
    for event in events:
        yield event
        if isinstance(event, UpdateDone) and next(done) == updates:
            return


def _summary(profiler: profile, update: int, group: Any, device: torch.device, folder: Path) -> Profiled:
    """Collective: write this process's trace and return the times of all processes."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = folder / f"rank_{launched_rank()}.json.gz"
    remove(trace)  # torch would write to what a link leads to
    profiler.export_chrome_trace(str(trace))
    times = _times(profiler, device)
    everyones = process_group.exchange(group, [round(times[name]) for name in _ORDER])
    ranks = tuple(PhaseTimes(*(us / 1000 / _RECORDED for us in each)) for each in everyones)
    slowest = max(range(len(ranks)), key=lambda rank: ranks[rank].own)
    return Profiled(update - _RECORDED + 1, update, ranks, slowest, str(folder))


def _times(profiler: profile, device: torch.device) -> dict[str, float]:
    """Return microseconds by phase.

    On a GPU, kernels and spans count as they ran on the device; on a CPU, operators as they ran in the loop's thread.
    """
    kind = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    events = profiler.events()  # type: ignore[no-untyped-call]
    loop = next(event.thread for event in events if event.name == "forward")
    spans: dict[str, list[Interval]] = defaultdict(list)
    communication: list[Interval] = []
    computation: list[Interval] = []
    for event in events:
        interval = (event.time_range.start, event.time_range.end)
        if event.name in _PHASES and event.device_type == (DeviceType.CPU if event.name == "data wait" else kind):
            spans[event.name].append(interval)
        elif event.device_type == kind and event.name.startswith(("gloo:", "nccl")):
            communication.append(interval)
        elif _computes(event, kind, loop):
            computation.append(interval)
    return phase_times(spans, communication, computation)


def _computes(event: Any, kind: DeviceType, loop: int) -> bool:
    if event.device_type != kind or event.is_user_annotation or event.name.startswith("c10d::"):
        return False
    return kind == DeviceType.CUDA or event.thread == loop
