"""Two runs started in one folder, one at a random time after the other, are never mixed.

The second is refused, or resumes after the first, and the folder ends with the files of one run, as if it had been
alone.
"""

import random
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
from helpers import warm
from helpers.marks import chaos
from helpers.runner import LAUNCHERS, Runner, clean_environment, read_metrics

OPTIONS = (
    *(
        "train",
        "--limit",
        "256",
        "--model",
        "mlp",
        "--batch-size",
        "8",
        "--global-batch-size",
        "16",
        "--device",
        "cpu",
        "--epochs",
        "3",
        "--quiet",
    ),
    *("--save-every", "10updates", "--exact", "--output", "run"),
)
CONFIGS: dict[str, tuple[str, ...]] = {"0.05": ("--lr", "0.05"), "0.01": ("--lr", "0.01")}
REFUSALS = ("error: another run is writing to run (process ", "error: run holds a run of another configuration: ")
SEEDS = [*range(4), *(chaos(seed) for seed in range(4, 50))]


@dataclass(frozen=True)
class Reference:
    """What a run leaves that was alone."""

    weights: bytes
    losses: list[tuple[int, float]]
    seconds: float


def losses(run: Path) -> list[tuple[int, float]]:
    """Return the updates at which a run's epochs have ended, and the losses of these epochs."""
    return [(record["update"], record["train_loss"]) for record in read_metrics(run, "epoch")]


def read(run: Path, seconds: float = 0.0) -> Reference:
    return Reference((run / "model.safetensors").read_bytes(), losses(run), seconds)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Reference]:
    """Run each configuration alone."""
    references = {}
    for lr, words in CONFIGS.items():
        folder = tmp_path_factory.mktemp("alone")
        began = time.monotonic()
        ended = Runner(folder)(*OPTIONS, *words)
        assert ended.code == 0, ended.err
        references[lr] = read(folder / "run", time.monotonic() - began)
    return references


@dataclass(frozen=True)
class Start:
    """A run that has been started in a folder, perhaps beside another."""

    process: BaseProcess
    streams: Path

    @classmethod
    def of(cls, folder: Path, name: str, lr: str, processes: int) -> "Start":
        streams = folder / name
        streams.mkdir()
        words = [*LAUNCHERS["accel_train"](1), *OPTIONS, *CONFIGS[lr], "--processes", str(processes)]
        return cls(warm.start(words, folder=folder, environment=clean_environment(), streams=streams), streams)

    def code(self) -> int | None:
        """Wait for the end; return the exit code."""
        self.process.join(60)
        return self.process.exitcode

    def error(self) -> str:
        file = self.streams / "err"
        return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("seed", SEEDS)
def test_two_starts_leave_one_run(tmp_path: Path, alone: Mapping[str, Reference], seed: int) -> None:
    chance = random.Random(seed)
    lrs = ("0.05", "0.05" if seed % 2 else "0.01")
    span = 1.5 * alone["0.05"].seconds
    first = Start.of(tmp_path, "first", lrs[0], chance.choice((1, 2)))
    time.sleep(chance.uniform(0, span))
    second = Start.of(tmp_path, "second", lrs[1], chance.choice((1, 2)))
    is_stopped = chance.random() < 0.5
    if is_stopped:
        time.sleep(chance.uniform(0, span / 2))
        first.process.terminate()  # does nothing if it has ended
    codes = (first.code(), second.code())
    stopped = {143, -signal.SIGTERM} if is_stopped else set()  # the latter if it had not even begun to listen
    for start, code, others in ((first, codes[0], stopped), (second, codes[1], set())):
        assert code in {0, 2} | others, start.error()
        assert code != 2 or start.error().startswith(REFUSALS), start.error()
        assert "Traceback" not in start.error()
    assert codes != (2, 2)
    run = tmp_path / "run"
    if not (run / "config.yaml").exists():  # the first was stopped before it began, the second had been refused
        assert codes == (143, 2)
        return
    (lr,) = (line.split()[1] for line in (run / "config.yaml").read_text().splitlines() if line.startswith("lr:"))
    ended = Runner(tmp_path)(*OPTIONS, *CONFIGS[lr])  # resumes what was stopped
    assert ended.code == 0, ended.err
    found = read(run)
    assert found.weights == alone[lr].weights
    assert found.losses == alone[lr].losses
