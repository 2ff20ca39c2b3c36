"""Measures training runs, each in processes of its own, beside the bare loop."""

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
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import psutil

from accel_train.bench.results import Found, Row, Setting
from accel_train.checkpoints.run_folder import Description, read_description
from accel_train.distributed.environment import available_cores
from accel_train.errors import UserError

_OUT_OF_MEMORY = re.compile(r"is out of (GPU )?memory|killed by SIGKILL")
_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True)
class Work:
    """What all settings train, as `accel_train train` takes it."""

    data: str
    model: str
    augment: str


class OutOfMemory(Exception):
    """A setting does not fit into memory."""


def measure(work: Work, setting: Setting, *, against_bare: bool, rounds: int) -> Row:
    """Train with a setting, by turns with the bare loop if it is asked for, and return medians over the rounds.

    Raises:
        UserError: the run was refused or failed for another reason than memory.
    """
    found, bare = [], []
    try:
        for _ in range(rounds):
            one, description = _train(work, setting)
            found.append(one)
            if against_bare:
                bare.append(_bare(setting, description))
    except OutOfMemory:
        return Row(setting, None, failure="out of memory")
    medians = Found(*(statistics.median(side) for side in zip(*(asdict(one).values() for one in found), strict=True)))
    if not bare:
        return Row(setting, medians)
    ratios = [one.images_per_second / floor for one, floor in zip(found, bare, strict=True)]
    return Row(setting, medians, statistics.median(bare), statistics.median(ratios))


def _train(work: Work, setting: Setting) -> tuple[Found, Description]:
    with tempfile.TemporaryDirectory(prefix="accel_train_bench_") as folder:
        run = Path(folder, "run")
        words = [
            *("train", "--data", work.data, "--model", work.model, "--limit", str(setting.images), "--epochs", "1"),
            *("--batch-size", str(setting.batch_size), "--processes", str(setting.processes)),
            *("--device", setting.device, "--precision", setting.precision, *["--compile"] * setting.compile),
            # Of a small learning rate: one that follows the batch would make some settings diverge.
            *("--augment", work.augment, "--lr", "0.01", "--profile", "--json", "--output", str(run)),
        ]
        return _run([sys.executable, "-m", "accel_train", *words]), read_description(run)


def _run(words: Sequence[str]) -> Found:
    """Run a training, and read what it says of itself."""
    started, records, start_up = time.perf_counter(), {}, 0.0
    with _watched(words, _environment()) as (child, peak):
        assert child.stdout
        for line in child.stdout:
            record = json.loads(line)
            records[record["kind"]] = record
            if record["kind"] == "run":
                start_up = time.perf_counter() - started
    ended, shares = records["end"], _shares(records["profile"]["ranks"])
    return Found(
        images_per_second=ended["images_per_second"],
        peak_memory_bytes=float(ended["gpu_memory_bytes"] or peak.result()),
        seconds_to_first_update=start_up + ended["seconds_to_first_update"],
        data_share=shares["data_wait"],
        compute_share=shares["forward"] + shares["backward"] + shares["optimizer"],
        communication_share=shares["communication"],
        other_share=shares["other"],
    )


def _bare(setting: Setting, description: Description) -> float:
    """Return the images/s of the bare loop with the model and the images of a run."""
    asked = {
        "setting": asdict(setting),
        "model": description.model,
        "classes": len(description.classes),
        "channels": description.channels,
        "image_size": description.image_size,
    }
    words, environment = ["-m", "accel_train.bench.bare_loop", json.dumps(asked)], _environment()
    if setting.processes > 1:
        words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(setting.processes), *words]
        environment.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // setting.processes)))
    with _watched([sys.executable, *words], environment) as (child, _):  # which costs as much as it costs a run
        assert child.stdout
        said = child.stdout.read()
    return statistics.mean(map(float, said.split()))


@contextmanager
def _watched(words: Sequence[str], environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], Future[int]]]:
    """Yield a process and the most memory that it and its children will have had when they are over.

    Raises:
        OutOfMemory, UserError: it failed.
    """
    over = threading.Event()
    with (
        tempfile.TemporaryFile("w+") as errors,
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as child,
    ):
        peak = pool.submit(peak_memory, child.pid, over)
        try:
            yield child, peak
        finally:
            over.set()
        if child.wait():
            raise _failure(child.returncode, errors)


def _environment() -> dict[str, str]:
    """Return this process's environment, in which a run ends when this process does."""
    return os.environ | {"ACCEL_TRAIN_LAUNCHER_PID": str(os.getpid())}


def _failure(code: int, errors: IO[str]) -> Exception:
    """Return what has gone wrong in a process, by what it has said."""
    errors.seek(0)
    lines = errors.read().splitlines() or ["nothing was said"]
    if code in (-9, 137) or any(_OUT_OF_MEMORY.search(line) for line in lines):
        return OutOfMemory()
    said = {label: text for label, _, text in (line.partition(": ") for line in lines)}
    hint = said.get("hint", "start accel_train train with the same options to see more")
    return UserError(said.get("error", f"a run ended with exit code {code}: {lines[-1]}"), hint)


def _shares(ranks: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean share of each phase over the processes."""
    return {name: statistics.mean(times[name] / sum(times.values()) for times in ranks) for name in ranks[0]}


def peak_memory(pid: int, over: threading.Event) -> int:
    """Return the most memory in bytes that a process and its children have had together until it is over.

    What they share counts once where the system tells (Linux); to ask for that takes time, so it is asked for only
    when they have grown.
    """
    peak, largest = 0, 0.0
    while not over.wait(_SECONDS_BETWEEN_LOOKS):
        try:
            parent = psutil.Process(pid)
            tree = [parent, *parent.children(recursive=True)]
            resident = sum(process.memory_info().rss for process in tree)
            if resident > 1.01 * largest:
                largest = resident
                peak = max(peak, sum(_own_memory(process.memory_full_info()) for process in tree))
        except psutil.Error:  # one of them has just ended
            continue
    return peak


def _own_memory(memory: Any) -> int:
    return int(getattr(memory, "pss", memory.rss))
