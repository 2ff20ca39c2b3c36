"""`--exact` gives bit-identical weights on any number of processes, also after kills."""

import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from helpers.comparing import flags
from helpers.faults import started
from helpers.marks import slow
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.xdist_group("exact run")  # the tests share runs

HERE = Path(__file__).parent
BATCH_SIZE, UPDATES_PER_EPOCH = 8, 16
COMMON = {
    **{"data": "fashion-mnist", "augment": "standard", "epochs": 2, "batch_size": BATCH_SIZE, "device": "cpu"},
    **{"save_every": "7updates", "keep": 9},  # 7 does not divide an epoch of 16: a killed run resumes in mid-epoch
}
WITH_DROPOUT = {"model": "networks:normalised", "lr": 0.05}
SHORT = {"limit": 480, "epochs": 1}
WHITENED = {"model": "airbench94_4_8_8", "lr": 0.05}
AVERAGED = {"model": "wide_resnet_10_1", "optimizer": "adamw", "lr": 0.003, "clip_norm": 0.5, "ema": 200}


def words(micro_batches: int, options: dict[str, Any], output: str = "out", exact: bool = True) -> list[str]:
    """Return the command of a run with this number of micro-batches per update."""
    images = micro_batches * BATCH_SIZE
    sizes = {"global_batch_size": images, "limit": UPDATES_PER_EPOCH * images, "output": output}
    return ["train", *flags({**COMMON, **sizes, **options}), "--exact" if exact else "--no-exact"]


def carry_out(run: Runner, *command: str, processes: int, launcher: str = "accel_train") -> str:
    """Run to the end and return what was printed."""
    ended = run(*command, processes=processes, launcher=launcher, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return ended.out


def kill_after(run: Runner, update: int, *command: str, processes: int) -> None:
    """Start a run and kill all of its processes when it has saved that update."""
    saved = run.folder / "out" / "checkpoints" / f"update_{update:06}"
    _, *options = command
    with started(run.folder, *options, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="") as program:
        program.wait_for(saved.exists)
    assert program.process.exitcode == -signal.SIGKILL


def written(output: Path) -> dict[str, bytes]:
    """Return the exported weights and the tensors of the last checkpoint."""
    files = {name: (output / name).read_bytes() for name in ("model.safetensors", "best.safetensors")}
    last = safetensors.torch.load_file(max(output.glob("checkpoints/update_*/tensors/*")))
    return files | {name: tensor.numpy().tobytes() for name, tensor in last.items()}


def different(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Return the names of the tensors and files that differ."""
    return [name for name in found | expected if found.get(name) != expected.get(name)]


@pytest.fixture(scope="module")
def on_one_process(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, bytes]]:
    """Return what an uninterrupted run with N micro-batches per update writes on one process."""

    @cache
    def files(micro_batches: int) -> dict[str, bytes]:
        run = Runner(tmp_path_factory.mktemp("one_process"))
        carry_out(run, *words(micro_batches, WITH_DROPOUT), processes=1)
        return written(run.folder / "out")

    return files


@pytest.mark.parametrize(
    ("micro_batches", "processes", "launcher"),
    [
        (6, 2, "accelerate"),
        (8, 3, "accel_train"),
        slow(6, 3, "torchrun"),
        slow(6, 5, "accel_train"),
        slow(8, 2, "torchrun"),
        slow(8, 4, "accel_train"),
    ],
)
def test_all_updates_are_bit_identical_on_several_processes(
    run: Runner,
    on_one_process: Callable[[int], dict[str, bytes]],
    micro_batches: int,
    processes: int,
    launcher: str,
) -> None:
    carry_out(run, *words(micro_batches, WITH_DROPOUT), processes=processes, launcher=launcher)
    assert different(written(run.folder / "out"), on_one_process(micro_batches)) == []
    (started,) = read_metrics(run.folder / "out", "run")
    assert (started["world_size"], started["total_updates"]) == (processes, 2 * UPDATES_PER_EPOCH)


def test_run_killed_on_four_and_one_processes_ends_bit_identical_on_two(
    run: Runner, on_one_process: Callable[[int], dict[str, bytes]]
) -> None:
    kill_after(run, 7, *words(8, WITH_DROPOUT), processes=4)
    kill_after(run, 14, *words(8, WITH_DROPOUT), processes=1)
    out = carry_out(run, *words(8, WITH_DROPOUT), processes=2)
    assert any(f", update {update}\n" in out for update in (14, 21, 28))
    assert different(written(run.folder / "out"), on_one_process(8)) == []


@pytest.mark.parametrize("options", [WHITENED, slow(AVERAGED)], ids=["whitening", "AdamW, clipping, EMA"])
def test_other_models_and_optimizers_are_bit_identical_on_three_processes(run: Runner, options: dict[str, Any]) -> None:
    for processes in (1, 3):
        carry_out(run, *words(6, options | SHORT, str(processes)), processes=processes)
    assert different(written(run.folder / "3"), written(run.folder / "1")) == []


def test_no_exact_gives_other_weights_on_two_processes(run: Runner) -> None:
    for processes in (1, 2):
        carry_out(run, *words(6, WITH_DROPOUT | SHORT, str(processes), exact=False), processes=processes)
    assert "model.safetensors" in different(written(run.folder / "2"), written(run.folder / "1"))
