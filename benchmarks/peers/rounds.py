"""Runs turns of trainers alternately, each in new processes."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.peers.work import Work

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Turn:
    """Results of one turn of one trainer."""

    images_per_second: float
    images_per_cpu_second: float
    """All processes; depends less on other load, but includes threads that spin while they wait for each other."""
    seconds_to_first_update: float
    peak_bytes: int
    """All processes, until the last update: resident memory, or GPU memory."""
    accuracy: float | None


def take_rounds(
    trainers: Sequence[str], work: Work, *, rounds: int, threads: int, evaluate: bool
) -> dict[str, list[Turn]]:
    """Return the turns of each trainer; a round is one turn of each."""
    turns: dict[str, list[Turn]] = {trainer: [] for trainer in trainers}
    for number in range(rounds):
        for trainer in trainers:
            turn = _take_turn(trainer, work, threads, evaluate)
            turns[trainer].append(turn)
            sys.stderr.write(f"{number + 1}/{rounds} {trainer}: {turn.images_per_second:,.0f} images/s\n")
    return turns


def _take_turn(trainer: str, work: Work, threads: int, evaluate: bool) -> Turn:
    words = [sys.executable, "-m", "benchmarks.peers.turn", trainer, json.dumps(asdict(work)), json.dumps(evaluate)]
    environment = os.environ | {
        "OMP_NUM_THREADS": str(max(1, threads // work.processes)),
        "PYTHONPATH": os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH")))),
    }
    if work.processes > 1:
        environment |= {
            "WORLD_SIZE": str(work.processes),
            "LOCAL_WORLD_SIZE": str(work.processes),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            "GLOO_SOCKET_IFNAME": "lo",
        }
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, str(rank)) for rank in range(work.processes)]
        _run_all(words, environment, outputs)
        results = [json.loads(output.read_text(encoding="utf-8").splitlines()[-1]) for output in outputs]
    return Turn(
        images_per_second=results[0]["images_per_second"],
        images_per_cpu_second=1 / sum(one["cpu_seconds_per_image"] for one in results),
        seconds_to_first_update=max(one["seconds_to_first_update"] for one in results),
        peak_bytes=sum(one["peak_bytes"] for one in results),
        accuracy=results[0].get("accuracy"),
    )


def _run_all(words: list[str], environment: dict[str, str], outputs: list[Path]) -> None:
    """Run one process per output and wait for all; if one fails, kill the others."""
    children = []
    try:
        for rank, output in enumerate(outputs):
            ranked = {"RANK": str(rank), "LOCAL_RANK": str(rank)} if len(outputs) > 1 else {}
            with output.open("wb") as stream:
                children.append(
                    subprocess.Popen(words, env=environment | ranked, stdout=stream, stderr=subprocess.STDOUT)
                )
        while not any(codes := [child.poll() for child in children]) and None in codes:
            time.sleep(0.1)
        for code, output in zip(codes, outputs, strict=True):
            if code:
                raise SystemExit(f"{output.read_text(encoding='utf-8')}error: {words[3]} ended with exit code {code}")
    finally:
        for child in children:
            child.kill()
            child.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
