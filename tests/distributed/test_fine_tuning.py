"""Frozen layers keep every bit, and fine-tuning gives the same on any number of processes, resumed or not."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from helpers.comparing import flags, greatest_difference, losses
from helpers.faults import started
from helpers.marks import slow
from helpers.runner import Ended, Runner

pytestmark = pytest.mark.xdist_group("fine-tuning")  # the tests share runs

HERE = Path(__file__).parent
MODEL = {"data": "digits", "model": "networks:residual", "device": "cpu", "batch_size": 8}
TUNED = {
    **MODEL,
    **{"weights": "base", "epochs": 3, "limit": 192, "global_batch_size": 48, "lr": 0.02, "ema": 100, "log_every": 1},
    **{"save_every": "3updates", "keep": 9, "precision": "fp64"},  # an epoch has 4 updates
}
FROZEN = {"freeze": "2"}
"""The stem with its norm, and the first block of three."""
TWO_PHASES = {"unfreeze_at": 1}


def train(run: Runner, options: dict[str, Any], *more: str | Path, processes: int = 1) -> Ended:
    ended = run("train", *flags(options), *more, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run whose weights others start from."""
    run = Runner(tmp_path_factory.mktemp("base"))
    train(run, MODEL | {"epochs": 1, "limit": 192, "output": "base"})
    return run.folder


@pytest.fixture
def here(base: Path, run: Runner) -> Runner:
    (run.folder / "base").symlink_to(base / "base")
    return run


@pytest.fixture(scope="module")
def on_one_process(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the run folder of a run in two phases on one process."""

    @cache
    def trained(word: str) -> Path:
        run = Runner(tmp_path_factory.mktemp("one_process"))
        (run.folder / "base").symlink_to(base / "base")
        train(run, TUNED | TWO_PHASES, word, "--output", "one")
        return run.folder / "one"

    return trained


def weights(folder: Path) -> dict[str, bytes]:
    """Return the last weights of a run as they are in fp64, which is exact."""
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    return {name: tensor.double().numpy().tobytes() for name, tensor in tensors.items()}


def changed(folder: Path, before: Path) -> set[str]:
    """Return the first part of the names of the tensors that differ from those of another run."""
    old = weights(before)
    return {name.partition(".")[0] for name, tensor in weights(folder).items() if tensor != old[name]}


@pytest.mark.parametrize(
    ("processes", "strategy"),
    [
        (1, ()),
        (2, ()),
        (2, ("--strategy", "fsdp2")),
        slow(2, ("--exact", "--optimizer", "adamw")),
        slow(4, ("--strategy", "hsdp", "--shard-size", "2")),
    ],
)
def test_frozen_layers_keep_every_bit_of_weights_and_statistics(
    here: Runner, processes: int, strategy: tuple[str, ...]
) -> None:
    options = TUNED | FROZEN | {"precision": "fp32"} | ({"global_batch_size": 64} if processes == 4 else {})
    ended = train(here, options, *strategy, "--output", "out", processes=processes)
    assert "note: frozen: 2 of 4 layers before the head, up to 3.layers (1,280 of 3,738 parameters)" in ended.out
    assert changed(here.folder / "out", here.folder / "base") == {"4", "5", "8"}  # two blocks and the head


@pytest.mark.parametrize(("word", "processes"), [("--exact", 2), ("--no-exact", 2), slow("--exact", 3)])
def test_run_in_two_phases_is_the_same_on_several_processes(
    here: Runner, on_one_process: Callable[[str], Path], word: str, processes: int
) -> None:
    one = on_one_process(word)
    folder = here.folder / str(processes)
    train(here, TUNED | TWO_PHASES, word, "--output", folder, processes=processes)
    if word == "--exact":
        assert weights(folder) == weights(one)
    else:
        assert losses(folder, processes, 6) == pytest.approx(losses(one, 1), rel=1e-7)
        assert greatest_difference(folder, one) < 1e-7
    assert changed(one, here.folder / "base") == {"0", "1", "3", "4", "5", "8"}


@pytest.mark.parametrize("update", [slow(3), 6])
def test_run_killed_before_and_after_the_layers_are_unfrozen_ends_bit_identical(
    here: Runner, on_one_process: Callable[[str], Path], update: int
) -> None:
    options = [*flags(TUNED | TWO_PHASES), "--exact", "--output", "out"]
    saved = here.folder / "out" / "checkpoints" / f"update_{update:06}"
    with started(here.folder, *options, processes=2, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="") as program:
        program.wait_for(saved.exists)
    ended = here("train", *options, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    assert "resumed at epoch " in ended.out
    assert weights(here.folder / "out") == weights(on_one_process("--exact"))


@pytest.mark.slow
def test_two_phases_under_fsdp2_are_those_of_one_process(here: Runner, on_one_process: Callable[[str], Path]) -> None:
    train(here, TUNED | TWO_PHASES, "--strategy", "fsdp2", "--output", "out", processes=2)
    one = on_one_process("--no-exact")
    assert losses(here.folder / "out", 2, 6) == pytest.approx(losses(one, 1), rel=1e-7)
    assert greatest_difference(here.folder / "out", one) < 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"layer_decay": 0.75, "head_lr_multiplier": 2}, FROZEN], ids=str)
def test_pipeline_takes_frozen_layers_and_learning_rates_by_layer(here: Runner, options: dict[str, Any]) -> None:
    pipeline = ("--strategy", "pipeline", "--pipeline-stages", "2")
    train(here, TUNED | options, "--exact", "--output", "one")
    train(here, TUNED | options, "--exact", *pipeline, "--output", "two", processes=2)
    assert weights(here.folder / "two") == weights(here.folder / "one")


def test_pipeline_refuses_layers_that_train_later(here: Runner) -> None:
    words = ("train", *flags(TUNED | TWO_PHASES), "--strategy", "pipeline", "--pipeline-stages", "2")
    ended = here(*words, processes=2, PYTHONPATH=str(HERE))
    assert ended.code == 2
    assert "error: --unfreeze-at does not work with Pipeline yet\n" in ended.err


def test_pipeline_with_a_stage_that_does_not_train_is_refused(here: Runner) -> None:
    words = ("train", *flags(TUNED | {"freeze": "backbone"}), "--strategy", "pipeline", "--pipeline-stages", "2")
    ended = here(*words, processes=2, PYTHONPATH=str(HERE))
    assert ended.code == 2
    assert "error: stage 0 of --strategy pipeline, from 0 on, has no trainable parameters\n" in ended.err
