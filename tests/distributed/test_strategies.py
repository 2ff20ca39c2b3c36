"""Every strategy gives the run of one process: eight micro-batches per update, on 2 and 4 processes."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from helpers.comparing import flags, greatest_difference, ids, losses, mean_losses, relative
from helpers.marks import chaos, slow
from helpers.runner import Runner

HERE = Path(__file__).parent
NO_GPUS = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(HERE)}
PLACES: dict[str, tuple[int, dict[str, Any]]] = {
    "one process": (1, {}),
    "DDP 2": (2, {"strategy": "ddp"}),
    "FSDP2 2": (2, {"strategy": "fsdp2"}),
    "HSDP 2 x 2": (4, {"strategy": "hsdp", "shard_size": 2}),
    "pipeline 2": (2, {"strategy": "pipeline", "pipeline_stages": 2}),
    "pipeline 4": (4, {"strategy": "pipeline", "pipeline_stages": 4, "pipeline_schedule": "gpipe"}),
    "DDP 2 x pipeline 2": (4, {"strategy": "pipeline", "pipeline_stages": 2}),
}
"""Processes and options by the name of the place."""
SHARED = [name for name in PLACES if name != "one process"]
EIGHT_MICRO_BATCHES = {"global_batch_size": 64, "batch_size": 8, "augment": "standard", "clip_norm": 1.0}
CASES = {
    "digits, cnn": {"data": "digits", "model": "cnn"},
    "digits, residual": {"data": "digits", "model": "networks:residual"},
    "fashion, cnn": {"data": "networks:fashion", "model": "cnn"},
    "fashion, residual": {"data": "networks:fashion", "model": "networks:residual"},
}
QUICK = ("digits, cnn", "fashion, residual")


def first_updates(run: Runner, case: str, place: str) -> tuple[Any, list[float]]:
    """Return the gradient of the first update, and the losses of the first five."""
    processes, strategy = PLACES[place]
    (folder := run.folder / f"{case}, {place}").mkdir()
    options = {**EIGHT_MICRO_BATCHES, **CASES[case], **strategy, "lr": 0.05, "epochs": 1, "limit": 320, "device": "cpu"}
    ended = run.script(
        HERE / "record_gradient.py", folder, json.dumps(options), processes=processes, timeout=240, **NO_GPUS
    )
    assert ended.code == 0, ended.err
    by_rank = [json.loads((folder / f"losses_{rank}.json").read_text()) for rank in range(processes)]
    return safetensors.torch.load_file(folder / "gradient.safetensors")["gradient"], mean_losses(by_rank, 8)


@pytest.mark.parametrize("case", [case if case in QUICK else chaos(case) for case in CASES])
def test_gradient_and_first_losses_in_fp32_are_those_of_one_process(run: Runner, case: str) -> None:
    gradient, first_losses = first_updates(run, case, "one process")
    assert len(first_losses) == 5
    for place in SHARED:
        found, losses_there = first_updates(run, case, place)
        assert relative(gradient, found) < 1e-6, place
        assert losses_there == pytest.approx(first_losses, rel=1e-5), place


@pytest.mark.parametrize("case", [slow(case) if case == QUICK[0] else chaos(case) for case in CASES])
def test_hundred_updates_in_fp64_are_those_of_one_process(run: Runner, case: str) -> None:
    data = {"limit": 6400} if "fashion" in CASES[case]["data"] else {"limit": 1280, "epochs": 5}
    options = {"epochs": 1, "lr": 0.05, "warmup_epochs": 0.1, "log_every": 1, "precision": "fp64", "device": "cpu"}
    options |= {**EIGHT_MICRO_BATCHES, **CASES[case], **data}
    for place, (processes, strategy) in PLACES.items():
        words = flags({**options, **strategy, "output": run.folder / place})
        ended = run("train", *words, processes=processes, timeout=300, **NO_GPUS)
        assert ended.code == 0, ended.err
    one = run.folder / "one process"
    assert len(losses(one, 1)) == 100
    for place in SHARED:
        processes, strategy = PLACES[place]
        assert greatest_difference(one, run.folder / place) < 1e-7, place
        assert losses(run.folder / place, processes, 8) == pytest.approx(losses(one, 1), rel=1e-7), place
        assert ids(run.folder / place, processes, strategy.get("pipeline_stages", 1)) == ids(one, 1), place


@pytest.mark.parametrize("strategy", [("fsdp2",), slow(("hsdp", "--shard-size", "2"))])
def test_sharded_processes_with_fewer_micro_batches_keep_the_others_company(
    run: Runner, strategy: tuple[str, ...]
) -> None:
    """Four processes share six micro-batches unequally; forward passes of shards are collective."""
    options = {**EIGHT_MICRO_BATCHES, "model": "networks:residual", "global_batch_size": 48, "limit": 192, "epochs": 1}
    options |= {"lr": 0.05, "precision": "fp64", "log_every": 1, "device": "cpu"}
    for processes, more in ((1, ()), (4, ("--strategy", *strategy))):
        words = (*flags({**options, "output": run.folder / str(processes)}), *more)
        ended = run("train", *words, processes=processes, **NO_GPUS)
        assert ended.code == 0, ended.err
    assert greatest_difference(run.folder / "1", run.folder / "4") < 1e-12
    assert losses(run.folder / "4", 4, 6) == pytest.approx(losses(run.folder / "1", 1), rel=1e-12)
