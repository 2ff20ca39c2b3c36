"""With --ema the averaged weights are evaluated, exported and resumed, under every strategy."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml
from helpers.faults import ON_CPU, TINY, Program, assert_same_run, finished, started
from torch import Tensor, nn

from accel_train.checkpoints.checkpointer import TrainedTensors, load_tensors
from accel_train.distributed.strategies.ddp import DDP
from accel_train.models.build import build_model
from accel_train.training.ema import Ema

pytestmark = pytest.mark.xdist_group("averages")  # the tests share runs

HALF_LIFE = 96.0
UPDATES = 12
TRAINING = (
    *("--data", "synthetic:64,1,8,8,2", "--model", "wide_resnet_10_1", "--global-batch-size", "16"),
    *("--batch-size", "8", "--epochs", "3", "--lr", "0.05", *ON_CPU),
    *("--save-every", "1updates", "--keep", "50", "--ema", str(HALF_LIFE), "--weights", "begin.safetensors"),
)
PLACES = {
    "one process": (),
    "DDP": ("--processes", "2", "--strategy", "ddp"),
    "FSDP2": ("--processes", "2", "--strategy", "fsdp2"),
}
READERS: dict[str, Callable[[Path], object]] = {
    ".safetensors": safetensors.torch.load_file,
    ".json": lambda file: json.loads(file.read_text(encoding="utf-8")),
    ".jsonl": lambda file: [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()],
    ".yaml": lambda file: yaml.safe_load(file.read_text(encoding="utf-8")),
    ".log": lambda file: file.read_text(encoding="utf-8"),
    "": lambda file: file.read_text(encoding="utf-8"),
}
"""Readers by suffix of the files that a run may leave; none of them can run code."""

Ended = tuple[Program, Path]


def network() -> nn.Module:
    torch.manual_seed(0)
    return build_model("wide_resnet_10_1", classes=2, channels=1, data_size=8, image_size=None).module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Ended]:
    """Return a function that returns the program and the folder of a run that has ended at a place."""

    @cache
    def run(place: str) -> Ended:
        folder = tmp_path_factory.mktemp("run")
        safetensors.torch.save_file(network().state_dict(), folder / "begin.safetensors")
        return finished(folder, "--output", folder / "run", *words(place, folder)), folder / "run"

    return run


def words(place: str, folder: Path) -> tuple[str | Path, ...]:
    return (*TRAINING[:-1], folder / TRAINING[-1], *PLACES[place])


def saved(checkpoint: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights of a checkpoint and their average."""
    module, strategy = network(), DDP()
    ema = Ema(module, 0.5, strategy)
    optimizer = torch.optim.SGD(module.parameters(), momentum=0.9)
    load_tensors(checkpoint, TrainedTensors(module, optimizer, ema, strategy))
    return module.state_dict(), ema.tensors()


def averaged(folder: Path, updates: int) -> dict[str, Tensor]:
    """Average the weights and BatchNorm statistics of all updates in float64, starting from the initial ones."""
    decay = 0.5 ** (16 / HALF_LIFE)
    average = {name: tensor.double() for name, tensor in network().state_dict().items()}
    for update in range(1, updates + 1):
        weights, _ = saved(folder / "checkpoints" / f"update_{update:06d}")
        for name, tensor in weights.items():
            average[name] = decay * average[name] + (1 - decay) * tensor
    return average


def epochs(folder: Path) -> list[dict[str, float]]:
    records = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [record for record in records if record["kind"] == "epoch"]


@pytest.mark.parametrize("place", PLACES)
def test_exported_weights_are_the_averages(place: str, run: Callable[[str], Ended]) -> None:
    _, folder = run(place)
    best = [record["update"] for record in epochs(folder) if record["best"]][-1]
    for name, update in (("model.safetensors", UPDATES), ("best.safetensors", best)):
        left = safetensors.torch.load_file(folder / name)
        network().load_state_dict(left, strict=True)
        expected = averaged(folder, update)
        for key, tensor in left.items():
            if tensor.is_floating_point():
                torch.testing.assert_close(tensor.double(), expected[key], rtol=1e-5, atol=1e-7)
            else:
                assert tensor == UPDATES, key  # counters are not averaged


@pytest.mark.parametrize("place", PLACES)
def test_no_file_can_run_code(place: str, run: Callable[[str], Ended]) -> None:
    _, folder = run(place)
    for file in filter(Path.is_file, folder.rglob("*")):
        READERS[file.suffix](file)


@pytest.mark.parametrize("place", PLACES)
def test_killed_run_resumes_its_average(place: str, run: Callable[[str], Ended], tmp_path: Path) -> None:
    _, unbroken = run(place)
    output = tmp_path / "run"
    line = ("--output", output, *words(place, unbroken.parent))
    with started(tmp_path, *line) as program:
        program.wait_for(lambda: program.saved() >= 3)
    assert finished(tmp_path, *line).resumed() >= 3
    assert_same_run(output, unbroken)


def test_accuracy_of_the_average_is_shown_and_picks_the_best(run: Callable[[str], Ended]) -> None:
    program, folder = run("one process")
    found = epochs(folder)
    lines = [line for line in program.out.splitlines() if line.startswith("epoch ")]
    for line, record in zip(lines, found, strict=True):
        assert f"val accuracy {record['val_accuracy']:.4f}  " in line
        assert f"ema {record['ema_val_accuracy']:.4f}" in line
    best = [record["best"] for record in found]
    assert best == is_best_so_far(found, "ema_val_accuracy")
    assert best != is_best_so_far(found, "val_accuracy"), "both pick the same epochs on these data"


def is_best_so_far(found: list[dict[str, float]], name: str) -> list[bool]:
    values = [record[name] for record in found]
    return [all(value > before for before in values[:i]) for i, value in enumerate(values)]


def test_target_accuracy_is_that_of_the_average(tmp_path: Path) -> None:
    words = (*TINY, "--epochs", "2", "--ema", "1e9", "--target-accuracy", "0.9")
    program = finished(tmp_path, "--output", tmp_path / "run", *words)
    assert "all epochs done\n" in program.out
    assert [record["val_accuracy"] for record in epochs(tmp_path / "run")] == [1.0, 1.0]
