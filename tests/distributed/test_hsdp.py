"""HSDP: the shards of a replica differ, replicas are equal and checked, and a checkpoint holds each tensor once."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
import torchvision
from helpers.checkpoints import WRITES_RESTORED_TENSORS, stored
from helpers.comparing import flags
from helpers.marks import slow
from helpers.runner import LAUNCHERS, Runner, read_metrics

CONFIG = Path(__file__).parents[2] / "accelerate_configs" / "hsdp_cpu_4_processes.yaml"
HSDP = ("--strategy", "hsdp", "--shard-size", "2")
SMALL = {"model": "mlp", "limit": 128, "batch_size": 8, "global_batch_size": 32, "epochs": 1, "device": "cpu"}
DAMAGES = """
import os
from accel_train.cli.app import main
from accel_train.training.updater import Updater

update = Updater.update

def damaging(self, micro_batches, number, **options):
    updated = update(self, micro_batches, number, **options)
    if number == 1 and os.environ["RANK"] == "3":
        parameter = next(self.model.parameters())
        self.strategy.local(parameter.detach())[0, 0] += 1
    return updated

Updater.update = damaging
main()
"""
"""accel_train, whose rank 3 changes a weight of its shard in the second update."""


@pytest.fixture
def hidden_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.mark.usefixtures("hidden_gpus")
def test_shards_differ_replicas_are_equal_and_are_stored_once(run: Runner) -> None:
    ended = run("train", *flags(SMALL), *HSDP, "--watch-every", "1", "--output", "out", processes=4)
    assert ended.code == 0, ended.err
    assert ended.err == ""
    (record,) = read_metrics(run.folder / "out", "run")
    assert record["strategy"] == "HSDP: 2 replicas × 2 shards"
    (epoch,) = read_metrics(run.folder / "out", "epoch_by_rank")
    hashes = [rank["weights"] for rank in epoch["ranks"]]
    assert hashes[0] == hashes[2] != hashes[1] == hashes[3]
    assert all(rank["sharded"] for rank in epoch["ranks"])
    checkpoint = run.folder / "out/checkpoints/update_000004"
    whole = sum(tensor.numel() * tensor.element_size() for tensor in stored(checkpoint).values())
    written = sum(file.stat().st_size for file in (checkpoint / "tensors").glob("*.safetensors"))
    assert whole < written < 1.05 * whole


@pytest.mark.usefixtures("hidden_gpus")
def test_shard_that_differs_from_its_replica_is_found(run: Runner) -> None:
    words = ("train", *flags(SMALL), *HSDP, "--watch-every", "1", "--output", "out")
    ended = run.script("-c", DAMAGES, *words, processes=4)
    assert ended.code == 2
    assert "error: rank 3 differs from the other ranks in its part of the weights, found after update 2\n" in ended.err


@pytest.mark.usefixtures("hidden_gpus")
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([*LAUNCHERS["accelerate"](1)[:3], "--config_file", str(CONFIG), "-m", "accel_train"], ()),
        slow(LAUNCHERS["torchrun"](4), HSDP),
    ],
    ids=["hsdp_cpu_4_processes.yaml", "torchrun"],
)
def test_launchers_start_hsdp(run: Runner, words: list[str], options: tuple[str, ...]) -> None:
    ended = run.python([*words, "train", *flags(SMALL), "--no-report", *options, "--output", "out"])
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    assert (record["strategy"], record["world_size"]) == ("HSDP: 2 replicas × 2 shards", 4)


def test_size_that_does_not_fit_is_one_error(run: Runner) -> None:
    ended = run("train", "--strategy", "hsdp", "--shard-size", "2", processes=3)
    assert (ended.code, ended.err) == (
        2,
        "error: --shard-size 2 must divide the 3 processes\nhint: start 4 processes or more, or use --strategy fsdp2\n",
    )


CHAIN: list[tuple[int, tuple[str, ...]]] = [
    (2, ("--strategy", "fsdp2")),
    (4, HSDP),
    (1, ("--activation-checkpointing",)),
    (2, ()),
]
"""Processes and options of the places through which a run moves."""


@pytest.mark.slow
@pytest.mark.usefixtures("hidden_gpus")
def test_resnet_moves_in_mid_epoch_and_its_weights_load_in_torchvision(run: Runner) -> None:
    options = {"model": "resnet18", "image_size": 64, "limit": 64, "batch_size": 4, "global_batch_size": 16}
    options |= {"epochs": 1, "save_every": "1updates", "keep": 9, "lr": 0.01, "device": "cpu"}
    before: Path | None = None
    for leg, (processes, more) in enumerate(CHAIN):
        words = ["train", *flags(options), *more, "--output", f"leg_{leg}"]
        if before is not None:
            words += ["--resume", str(before)]
        ended = run.script("-c", WRITES_RESTORED_TENSORS, *words, processes=processes, timeout=240)
        assert ended.code == 0, ended.err
        for rank in range(processes if before else 0):
            assert before
            restored = safetensors.torch.load_file(run.folder / f"restored_by_{rank}.safetensors")
            saved = stored(before)
            assert [name for name in saved | restored if not torch.equal(saved[name], restored[name])] == []
        model = torchvision.models.resnet18(num_classes=10)
        model.load_state_dict(safetensors.torch.load_file(run.folder / f"leg_{leg}/model.safetensors"), strict=True)
        before = run.folder / f"leg_{leg}/checkpoints/update_{leg + 1:06}"
