"""A run goes on in mid-epoch on another number of processes and another strategy, as if it had not been interrupted."""

from itertools import permutations
from pathlib import Path

import pytest
import safetensors.torch
import torch
from helpers.comparing import flags
from helpers.runner import Runner, read_metrics
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

OPTIONS = {
    **{"model": "wide_resnet_10_1", "limit": 320, "epochs": 1, "batch_size": 8, "global_batch_size": 16},
    **{"lr": 0.01, "augment": "standard", "log_every": 1, "save_every": "5updates", "keep": 8, "device": "cpu"},
    "ema": 100,
}
PLACES = {"one process": (1, "auto"), "DDP": (2, "ddp"), "FSDP2": (2, "fsdp2")}
WRITES_WHAT_IT_RESTORES = """
import os, safetensors.torch
from accel_train.checkpoints import checkpointer as checkpoint
from accel_train.distributed.strategies import fsdp2 as sharding

def load_and_write(folder, trained):
    load(folder, trained)
    restored = {name: sharding.whole(tensor).contiguous() for name, tensor in trained.tensors().items()}
    safetensors.torch.save_file(restored, f"restored_by_{os.environ.get('RANK', 0)}.safetensors")

load, checkpoint.load_tensors = checkpoint.load_tensors, load_and_write
from accel_train.cli.app import main  # not sooner, nor anything else that takes over the function
main()
"""
"""As a script: accel_train, with one more thing to do. Each of its processes writes all that it goes on from."""


def train(run: Runner, place: str, *more: str | Path) -> str:
    processes, strategy = PLACES[place]
    ended = run("train", *flags(OPTIONS), "--strategy", strategy, *more, processes=processes)
    assert ended.code == 0, ended.err
    return ended.out


def losses(folder: Path, first: int, last: int) -> list[float]:
    return [r["local_loss"] for r in read_metrics(folder, "progress") if first <= r["update"] <= last]


def stored(checkpoint: Path) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint as whole ones, whoever has written them."""
    reader = HuggingFaceStorageReader(str(checkpoint / "tensors"))
    found = reader.read_metadata().state_dict_metadata
    tensors = {name: torch.empty(of.size, dtype=of.properties.dtype) for name, of in found.items()}
    load(tensors, storage_reader=reader, no_dist=True)
    return tensors


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a whole run in every place."""
    run = Runner(tmp_path_factory.mktemp("unbroken"))
    for place in PLACES:
        train(run, place, "--output", place)
    return run.folder


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")  # where `stored` reads
@pytest.mark.parametrize(("before", "after"), list(permutations(PLACES, 2)))
def test_every_place_goes_on_from_every_other(run: Runner, unbroken: Path, before: str, after: str) -> None:
    checkpoint = unbroken / before / "checkpoints" / "update_000010"
    processes, strategy = PLACES[after]
    words = ("train", *flags(OPTIONS), "--strategy", strategy, "--resume", checkpoint, "--output", "here")
    ended = run.script("-c", WRITES_WHAT_IT_RESTORES, *words, processes=processes)
    assert ended.code == 0, ended.err
    assert "resumed from update 10" in ended.out

    saved = stored(checkpoint)
    assert {name.partition(".")[0] for name in saved} == {"model", "optimizer", "average"}
    for rank in range(processes):
        restored = safetensors.torch.load_file(run.folder / f"restored_by_{rank}.safetensors")
        assert [name for name in saved | restored if not torch.equal(saved[name], restored[name])] == []

    here = run.folder / "here"
    history = (unbroken / before / "metrics.jsonl").read_bytes()
    kept = (here / "metrics.jsonl").read_bytes().splitlines(keepends=True)[:11]  # the run's and ten updates'
    assert b"".join(kept) == history[: len(b"".join(kept))]
    assert [r["update"] for r in read_metrics(here, "progress")] == list(range(1, 21))
    assert losses(here, 11, 15) == pytest.approx(losses(unbroken / after, 11, 15), rel=1e-5)


@pytest.mark.parametrize(("before", "after"), [("FSDP2", "one process"), ("DDP", "FSDP2")])
def test_a_run_that_ended_elsewhere_leaves_the_same_weights(
    run: Runner, unbroken: Path, before: str, after: str
) -> None:
    train(run, after, "--resume", unbroken / before / "checkpoints" / "update_000020", "--output", "ended")
    for name in ("model.safetensors", "best.safetensors"):
        assert (run.folder / "ended" / name).read_bytes() == (unbroken / before / name).read_bytes()


def test_going_back_to_an_older_checkpoint_does_not_meet_the_later_ones(run: Runner) -> None:
    train(run, "one process", "--output", "out")
    older = run.folder / "out" / "checkpoints" / "update_000010"
    out = train(run, "one process", "--resume", older, "--epochs", "2")
    assert "resumed from update 10" in out
    assert "saved checkpoint update 15" in out
    fresh = train(run, "one process", "--resume", older, "--epochs", "2", "--output", "fresh")
    assert "saved checkpoint update 40" in fresh
    for name in ("model.safetensors", "checkpoints/update_000015/tensors/shard-00001-model-00001-of-00001.safetensors"):
        tensors, others = (safetensors.torch.load_file(run.folder / folder / name) for folder in ("out", "fresh"))
        assert all(torch.equal(tensors[key], others[key]) for key in tensors | others)
    again = train(run, "one process", "--epochs", "2", "--output", "out")
    assert "resumed from update 40" in again
