"""Strategies on several GPUs over NCCL, and what saves memory on one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.comparing import flags, greatest_difference, losses
from helpers.marks import needs
from helpers.runner import Ended, Runner, read_metrics

pytestmark = [pytest.mark.gpu, needs(1)]

HERE = Path(__file__).parent
NETWORKS = str(HERE.parent / "distributed")
EIGHT_MICRO_BATCHES = {"global_batch_size": 64, "batch_size": 8, "augment": "standard", "epochs": 1, "lr": 0.05}
RESIDUAL = {**EIGHT_MICRO_BATCHES, "model": "networks:residual", "limit": 640, "log_every": 1, "precision": "fp32"}
STRATEGIES: dict[str, tuple[int, dict[str, Any]]] = {
    "DDP": (2, {"strategy": "ddp"}),
    "FSDP2": (2, {"strategy": "fsdp2"}),
    "HSDP": (4, {"strategy": "hsdp", "shard_size": 2}),
    "pipeline": (2, {"strategy": "pipeline", "pipeline_stages": 2}),
    "2 replicas × pipeline": (4, {"strategy": "pipeline", "pipeline_stages": 2, "pipeline_schedule": "gpipe"}),
}
BY_STRATEGY = [pytest.param(name, marks=needs(gpus)) for name, (gpus, _) in STRATEGIES.items()]


def train(run: Runner, name: str, options: dict[str, Any], *more: str, gpus: int = 1, code: int = 0) -> Ended:
    """Train on GPUs; the run folder has this name."""
    words = flags({**options, "device": "cuda", "output": name})
    ended = run("train", *words, *more, processes=gpus, forked=False, timeout=300, PYTHONPATH=NETWORKS)
    assert ended.code == code, ended.err
    return ended


@needs(2)
def test_exact_gives_one_hash_on_any_number_of_gpus(run: Runner) -> None:
    written = set()
    for gpus in (count for count in (1, 2, 3, 4, 8) if count <= torch.cuda.device_count()):
        train(run, str(gpus), RESIDUAL, "--exact", gpus=gpus)
        written.add((run.folder / str(gpus) / "model.safetensors").read_bytes())
    assert len(written) == 1


@needs(2)
def test_exact_pipeline_gives_the_hash_of_one_gpu(run: Runner) -> None:
    train(run, "one", RESIDUAL, "--exact")
    train(run, "stages", {**RESIDUAL, **STRATEGIES["pipeline"][1]}, "--exact", gpus=2)
    one, stages = ((run.folder / name / "model.safetensors").read_bytes() for name in ("one", "stages"))
    assert one == stages


@pytest.mark.parametrize("name", BY_STRATEGY)
def test_first_losses_are_those_of_one_gpu(run: Runner, name: str) -> None:
    gpus, strategy = STRATEGIES[name]
    train(run, "one", RESIDUAL)
    train(run, "many", {**RESIDUAL, **strategy}, gpus=gpus)
    (record,) = read_metrics(run.folder / "many", "run")
    assert (record["world_size"], record["backend"]) == (gpus, "nccl")
    assert record["strategy"].startswith(name)
    assert losses(run.folder / "many", gpus, 8)[:5] == pytest.approx(losses(run.folder / "one", 1)[:5], rel=1e-4)


@pytest.mark.parametrize("name", BY_STRATEGY)
def test_hundred_updates_in_fp64_are_those_of_one_gpu(run: Runner, name: str) -> None:
    gpus, strategy = STRATEGIES[name]
    options = {**RESIDUAL, "precision": "fp64", "limit": 1280, "epochs": 5, "warmup_epochs": 0.1}
    train(run, "one", options)
    train(run, "many", {**options, **strategy}, gpus=gpus)
    assert greatest_difference(run.folder / "one", run.folder / "many") < 1e-7


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("name", BY_STRATEGY)
def test_mixed_precision_learns_and_resumes(run: Runner, name: str, precision: str) -> None:
    """In fp16, the loss scaler is part of a checkpoint."""
    gpus, strategy = STRATEGIES[name]
    options = {"model": "wide_resnet_10_1", "precision": precision, "global_batch_size": 64, "batch_size": 16}
    options |= strategy
    train(run, "out", options, "--epochs", "4", gpus=gpus)
    train(run, "out", options, "--epochs", "8", gpus=gpus)
    epochs = read_metrics(run.folder / "out", "epoch")
    assert [epoch["epoch"] for epoch in epochs] == list(range(1, 9))
    assert epochs[-1]["val_accuracy"] > 0.9


@needs(2)
def test_dp_gives_the_run_of_one_gpu_and_names_the_faster_command(run: Runner) -> None:
    options = {**EIGHT_MICRO_BATCHES, "model": "mlp", "limit": 640, "precision": "fp32", "log_every": 1}
    train(run, "one", options)
    ended = train(run, "dp", {**options, "strategy": "dp"})
    gpus = torch.cuda.device_count()
    assert f"note: DataParallel is slower than DDP: accel_train train --processes {gpus} …" in ended.out
    (record,) = read_metrics(run.folder / "dp", "run")
    assert record["strategy"] == f"DataParallel on {gpus} GPUs"
    assert losses(run.folder / "dp", 1) == pytest.approx(losses(run.folder / "one", 1), rel=1e-4)
    assert greatest_difference(run.folder / "one", run.folder / "dp") < 1e-4


@needs(2)
def test_dp_in_bf16_learns(run: Runner) -> None:
    train(run, "dp", {"model": "mlp", "precision": "bf16", "strategy": "dp", "epochs": 10})
    assert read_metrics(run.folder / "dp", "epoch")[-1]["val_accuracy"] > 0.9


@needs(2)
def test_dp_rejects_batch_norm_by_name(run: Runner) -> None:
    ended = train(run, "dp", {"model": "wide_resnet_10_1", "strategy": "dp"}, code=2)
    assert "(BatchNorm2d) would see the images of one GPU only" in ended.err


def test_dp_on_a_single_gpu_is_rejected(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    ended = train(run, "dp", {"strategy": "dp", "model": "mlp"}, code=2)
    assert "error: --strategy dp needs two GPUs or more, and this run has 1 GPU\n" in ended.err


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_activation_checkpointing_changes_no_bit_under_exact(run: Runner, precision: str) -> None:
    written = set()
    for name, more in {"plain": (), "checkpointed": ("--activation-checkpointing",)}.items():
        train(run, name, {**RESIDUAL, "precision": precision}, "--exact", *more)
        written.add((run.folder / name / "model.safetensors").read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("name", BY_STRATEGY)
def test_activation_checkpointing_changes_no_loss_under_a_strategy(run: Runner, name: str) -> None:
    gpus, strategy = STRATEGIES[name]
    for folder, more in {"plain": (), "checkpointed": ("--activation-checkpointing",)}.items():
        train(run, folder, {**RESIDUAL, **strategy}, *more, gpus=gpus)
    found = [losses(run.folder / folder, gpus, 8)[:5] for folder in ("plain", "checkpointed")]
    assert found[1] == pytest.approx(found[0], rel=1e-5)


def test_activation_checkpointing_lowers_the_peak_of_resnet50(run: Runner) -> None:
    options = {"model": "resnet50", "data": "synthetic:128,3,224,224,10", "batch_size": 32, "epochs": 1}
    peaks = []
    for name, more in {"plain": (), "checkpointed": ("--activation-checkpointing",)}.items():
        train(run, name, options, *more)
        (ended,) = read_metrics(run.folder / name, "end")
        peaks.append(ended["gpu_memory_bytes"])
    assert peaks[1] < 0.6 * peaks[0]


def test_batch_that_does_not_fit_is_one_error_with_a_smaller_one(run: Runner) -> None:
    options = {"model": "resnet50", "data": "synthetic:65536,3,32,32,10", "image_size": 224, "batch_size": 32768}
    ended = train(run, "out", options, code=2)
    assert "error: rank 0 is out of GPU memory with --batch-size 32768: " in ended.err
    assert "hint: --global-batch-size 32768 --batch-size 16384 (= --batch-size 16384 --accumulate 2) " in ended.err


@needs(2)
def test_each_gpu_stores_its_share(run: Runner) -> None:
    """Weights, gradients and Adam's moments are most of what a wide MLP needs."""
    options = {"model": "wide_resnet_16_8", "optimizer": "adamw", "batch_size": 1, "epochs": 1, "limit": 64}
    peaks = []
    for name in ("DDP", "FSDP2"):
        gpus, strategy = STRATEGIES[name]
        train(run, name, {**options, **strategy}, gpus=gpus)
        (ended,) = read_metrics(run.folder / name, "end")
        peaks.append(ended["gpu_memory_bytes"])
    assert peaks[1] < 0.75 * peaks[0]
