"""Measures training runs in subprocesses, optionally alternating with the bare loop."""

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from accel_train.bench.results import Measurement, Row, Setting
from accel_train.checkpoints.run_folder import Description, read_description
from accel_train.errors import UserError
from accel_train.system.signals import StopSignals

_OUT_OF_MEMORY = re.compile(r"is out of (GPU )?memory|killed by SIGKILL")
_SECONDS_BETWEEN_SAMPLES = 0.5
_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass(frozen=True)
class Workload:
    """What every setting trains, as options of `accel_train train`."""

    data: str
    model: str
    augment: str
    options: tuple[str, ...] = ()
    """Others, such as ``("--mixup", "0.2")``."""


class OutOfMemory(Exception):
    """A setting does not fit into memory."""


def measure(
    workload: Workload, setting: Setting, *, against_bare: bool, rounds: int, signals: StopSignals | None = None
) -> Row:
    """Train with a setting, alternating with the bare loop if `against_bare`; return medians over the rounds.

    Once one of `signals` asks to stop, the process that runs is ended, and its error raised.

    Raises:
        UserError: the run was refused or failed, except by running out of memory.
    """
    measurements, bare = [], []
    try:
        for _ in range(rounds):
            measurement, description = _train(workload, setting, signals)
            measurements.append(measurement)
            if against_bare:
                bare.append(_bare(setting, description, signals))
    except OutOfMemory:
        return Row(setting, None, failure="out of memory")
    medians = Measurement(*map(statistics.median, zip(*map(astuple, measurements), strict=True)))
    if not bare:
        return Row(setting, medians)
    ratios = [ours.images_per_second / theirs for ours, theirs in zip(measurements, bare, strict=True)]
    return Row(setting, medians, statistics.median(bare), statistics.median(ratios))


def _train(workload: Workload, setting: Setting, signals: StopSignals | None) -> tuple[Measurement, Description]:
    with tempfile.TemporaryDirectory(prefix="accel_train_bench_") as folder:
        run = Path(folder, "run")
        arguments = [
            *(
                "train",
                "--no-report",
                "--data",
                workload.data,
                "--model",
                workload.model,
                "--limit",
                str(setting.images),
            ),
            *("--epochs", "1", "--batch-size", str(setting.batch_size), "--processes", str(setting.processes)),
            *("--device", setting.device, "--precision", setting.precision, *["--compile"] * setting.compile),
            # A small fixed learning rate: one that is scaled with the batch would make some settings diverge.
            *("--augment", workload.augment, *workload.options, "--lr", "0.01"),
            *("--profile", "--json", "--output", str(run)),
        ]
        return _run([sys.executable, "-m", "accel_train", *arguments], signals), read_description(run)


def _run(command: Sequence[str], signals: StopSignals | None) -> Measurement:
    """Run a training command, and read its events."""
    started, records, start_up = time.perf_counter(), {}, 0.0
    with _subprocess(command, _environment(), signals) as (process, peak):
        assert process.stdout
        for line in process.stdout:
            record = json.loads(line)
            records[record["kind"]] = record
            if record["kind"] == "run":
                start_up = time.perf_counter() - started
    ended, shares = records["end"], _shares(records["profile"]["ranks"])
    return Measurement(
        images_per_second=ended["images_per_second"],
        peak_memory_bytes=float(ended["gpu_memory_bytes"] or peak.result()),
        seconds_to_first_update=start_up + ended["seconds_to_first_update"],
        data_share=shares["data_wait"],
        compute_share=shares["forward"] + shares["backward"] + shares["optimizer"],
        communication_share=shares["communication"],
        other_share=shares["other"],
    )


def _bare(setting: Setting, description: Description, signals: StopSignals | None) -> float:
    """Return the images/s of the bare loop with the model and image size of a run."""
    arguments = {
        "setting": asdict(setting),
        "model": description.model,
        "classes": len(description.classes),
        "channels": description.channels,
        "image_size": description.image_size,
    }
    command = [sys.executable, "-m", "accel_train.bench.bare_loop", json.dumps(arguments)]
    # Its memory is sampled as for a run: sampling slows both alike.
    with _subprocess(command, _environment(), signals) as (process, _):
        assert process.stdout
        output = process.stdout.read()
    return statistics.mean(map(float, output.split()))


@contextmanager
def _subprocess(
    command: Sequence[str], environment: dict[str, str], signals: StopSignals | None
) -> Iterator[tuple[subprocess.Popen[str], Future[int]]]:
    """Yield a process, and the peak memory of its tree, which is known once the process has ended.

    Raises:
        OutOfMemory, UserError: the process failed.
    """
    done = threading.Event()
    with (
        tempfile.TemporaryFile("w+") as errors,
        ThreadPoolExecutor(2) as pool,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
    ):
        peak = pool.submit(peak_memory, process.pid, done)
        pool.submit(_end_when_asked, process, signals, done)
        try:
            yield process, peak
        finally:
            done.set()
        if process.wait():
            raise _failure(process.returncode, errors)


def _end_when_asked(process: subprocess.Popen[str], signals: StopSignals | None, done: threading.Event) -> None:
    """End a process once a signal asks to stop, so that nothing is left that writes to its temporary folder."""
    while signals and not done.wait(_SECONDS_BETWEEN_LOOKS):
        if signals.reason:
            process.terminate()
            return


def _environment() -> dict[str, str]:
    """Return the environment of a run, which ends when this process does, and finds the same modules as this one."""
    return os.environ | {"ACCEL_TRAIN_LAUNCHER_PID": str(os.getpid()), "PYTHONSAFEPATH": "1"}


def _failure(code: int, errors: IO[str]) -> Exception:
    """Return the error that a process has reported on stderr."""
    errors.seek(0)
    lines = errors.read().splitlines() or ["no output on stderr"]
    if code in (-9, 137) or any(_OUT_OF_MEMORY.search(line) for line in lines):
        return OutOfMemory()
    reported = {label: text for label, _, text in (line.partition(": ") for line in lines)}
    hint = reported.get("hint", "run accel_train train with the same options to see more")
    return UserError(reported.get("error", f"a run ended with exit code {code}: {lines[-1]}"), hint)


def _shares(ranks: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean share of each phase over the ranks."""
    return {name: statistics.mean(times[name] / sum(times.values()) for times in ranks) for name in ranks[0]}


def peak_memory(pid: int, done: threading.Event) -> int:
    """Return the peak memory in bytes of a process and its children together, until `done` is set.

    Shared memory counts once on Linux. Asking for that is slow, so it is done only when the resident memory has grown.
    """
    peak, largest = 0, 0.0
    while not done.wait(_SECONDS_BETWEEN_SAMPLES):
        try:
            parent = psutil.Process(pid)
            tree = [parent, *parent.children(recursive=True)]
            resident = sum(process.memory_info().rss for process in tree)
            if resident > 1.01 * largest:
                largest = resident
                peak = max(peak, sum(_proportional_memory(process.memory_full_info()) for process in tree))
        except psutil.Error:  # a process of the tree has just ended
            continue
    return peak


def _proportional_memory(memory: Any) -> int:
    return int(getattr(memory, "pss", memory.rss))
