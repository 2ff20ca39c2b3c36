"""A run goes on in mid-epoch on another number of processes and another strategy, as if it had not been interrupted."""

from itertools import permutations
from pathlib import Path

import pytest
import safetensors.torch
import torch
from comparing import flags
from conftest import Runner, read_metrics

OPTIONS = {
    **{"model": "wide_resnet_10_1", "limit": 320, "epochs": 1, "batch_size": 8, "global_batch_size": 16},
    **{"lr": 0.01, "augment": "standard", "log_every": 1, "save_every": "5updates", "keep": 8, "device": "cpu"},
}
PLACES = {"one process": (1, "auto"), "DDP": (2, "ddp"), "FSDP2": (2, "fsdp2")}


def train(run: Runner, place: str, *more: str | Path) -> str:
    processes, strategy = PLACES[place]
    ended = run("train", *flags(OPTIONS), "--strategy", strategy, *more, processes=processes)
    assert ended.code == 0, ended.err
    return ended.out


def losses(folder: Path, first: int, last: int) -> list[float]:
    return [r["local_loss"] for r in read_metrics(folder, "progress") if first <= r["update"] <= last]


@pytest.mark.timeout(600)
def test_every_place_goes_on_from_every_other(run: Runner) -> None:
    for place in PLACES:
        train(run, place, "--output", place)
    for before, after in permutations(PLACES, 2):
        there, here = run.folder / before, run.folder / f"{before} to {after}"
        out = train(run, after, "--resume", there / "checkpoints" / "update_000010", "--output", here)
        assert "resumed from update 10" in out
        history = (there / "metrics.jsonl").read_bytes()
        kept = (here / "metrics.jsonl").read_bytes().splitlines(keepends=True)[:11]  # the run's and ten updates'
        assert b"".join(kept) == history[: len(b"".join(kept))]
        assert [r["update"] for r in read_metrics(here, "progress")] == list(range(1, 21))
        unbroken = losses(run.folder / after, 11, 15)
        assert losses(here, 11, 15) == pytest.approx(unbroken, rel=1e-5)


@pytest.mark.timeout(600)
def test_what_is_restored_is_what_was_saved_bit_for_bit(run: Runner) -> None:
    for before, after in permutations(PLACES, 2):
        if not (run.folder / before).exists():
            train(run, before, "--output", before)
        ended = run.folder / f"{before} to {after}"
        train(run, after, "--resume", run.folder / before / "checkpoints" / "update_000020", "--output", ended)
        for name in ("model.safetensors", "best.safetensors"):
            assert (ended / name).read_bytes() == (run.folder / before / name).read_bytes(), (before, after, name)


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
