"""A run resumes in mid-epoch on another number of processes or with another strategy, and computes the same."""

import re
from itertools import permutations
from pathlib import Path

import pytest
import safetensors.torch
import torch
from helpers.checkpoints import WRITES_RESTORED_TENSORS, stored
from helpers.comparing import flags
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.xdist_group("resuming")  # the tests share runs

OPTIONS = {
    **{"model": "wide_resnet_10_1", "limit": 320, "epochs": 1, "batch_size": 4, "global_batch_size": 16},
    **{"lr": 0.01, "augment": "standard", "log_every": 1, "save_every": "5updates", "keep": 8, "device": "cpu"},
    "ema": 100,
}
PLACES: dict[str, tuple[int, tuple[str, ...]]] = {
    "one process": (1, ()),
    "DDP": (2, ("--strategy", "ddp")),
    "FSDP2": (2, ("--strategy", "fsdp2")),
    "HSDP": (4, ("--strategy", "hsdp", "--shard-size", "2")),
}
MOVES = [*permutations(("one process", "DDP", "FSDP2"), 2), ("FSDP2", "HSDP"), ("HSDP", "one process")]


def train(run: Runner, place: str, *more: str | Path) -> str:
    processes, strategy = PLACES[place]
    ended = run("train", *flags(OPTIONS), *strategy, *more, processes=processes)
    assert ended.code == 0, ended.err
    return ended.out


def losses(folder: Path, first: int, last: int) -> list[float]:
    return [r["local_loss"] for r in read_metrics(folder, "progress") if first <= r["update"] <= last]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an uninterrupted run in every place."""
    run = Runner(tmp_path_factory.mktemp("unbroken"))
    for place in PLACES:
        train(run, place, "--output", place)
    return run.folder


@pytest.mark.parametrize(("before", "after"), MOVES)
def test_run_resumes_with_other_processes_and_strategy(run: Runner, unbroken: Path, before: str, after: str) -> None:
    checkpoint = unbroken / before / "checkpoints" / "update_000010"
    processes, strategy = PLACES[after]
    words = ("train", *flags(OPTIONS), *strategy, "--resume", checkpoint, "--output", "here")
    ended = run.script("-c", WRITES_RESTORED_TENSORS, *words, processes=processes)
    assert ended.code == 0, ended.err
    assert re.search(r"^resumed at epoch \d of \d, update 10$", ended.out, re.MULTILINE)

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
def test_finished_run_exports_the_same_weights_elsewhere(run: Runner, unbroken: Path, before: str, after: str) -> None:
    train(run, after, "--resume", unbroken / before / "checkpoints" / "update_000020", "--output", "ended")
    for name in ("model.safetensors", "best.safetensors"):
        assert (run.folder / "ended" / name).read_bytes() == (unbroken / before / name).read_bytes()


def test_resuming_from_an_older_checkpoint_ignores_newer_ones(run: Runner) -> None:
    train(run, "one process", "--output", "out")
    older = run.folder / "out" / "checkpoints" / "update_000010"
    out = train(run, "one process", "--resume", older, "--epochs", "2")
    assert re.search(r"^resumed at epoch \d of \d, update 10$", out, re.MULTILINE)
    assert "saved checkpoint update 15" in out
    fresh = train(run, "one process", "--resume", older, "--epochs", "2", "--output", "fresh")
    assert "saved checkpoint update 40" in fresh
    for name in ("model.safetensors", "checkpoints/update_000015/tensors/shard-00001-model-00001-of-00001.safetensors"):
        tensors, others = (safetensors.torch.load_file(run.folder / folder / name) for folder in ("out", "fresh"))
        assert all(torch.equal(tensors[key], others[key]) for key in tensors | others)
    again = train(run, "one process", "--epochs", "2", "--output", "out")
    assert re.search(r"^resumed at epoch \d of \d, update 40$", again, re.MULTILINE)
