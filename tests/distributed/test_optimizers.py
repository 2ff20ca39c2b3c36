"""Optimizers that need whole parameters compute the same everywhere, sharded or not, and move with checkpoints."""

from pathlib import Path

import pytest
from helpers.comparing import flags, greatest_difference, ids, losses
from helpers.marks import chaos, slow
from helpers.runner import Runner, read_metrics

pytestmark = pytest.mark.xdist_group("optimizers")  # the tests share runs

HERE = Path(__file__).parent
OPTIONS = {
    **{"model": "networks:residual", "limit": 288, "epochs": 1, "batch_size": 8, "global_batch_size": 48},
    **{"precision": "fp64", "warmup_epochs": 0.1, "clip_norm": 1, "ema": 100, "augment": "standard"},
    **{"log_every": 1, "save_every": "3updates", "keep": 8, "device": "cpu"},
}
RATES = {"lars": 0.4, "lamb": 0.02, "novograd": 0.01, "muon": 0.01}
PIPELINE = ("--strategy", "pipeline", "--pipeline-stages", "2")
PLACES: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "one process": (1, 1, ()),
    "DDP 2": (2, 1, ()),
    "DDP 3": (3, 1, ()),
    "FSDP2 2": (2, 1, ("--strategy", "fsdp2")),
    "FSDP2 3": (3, 1, ("--strategy", "fsdp2")),
    "HSDP 2 x 2": (4, 1, ("--strategy", "hsdp", "--shard-size", "2")),
    "pipeline 2": (2, 2, PIPELINE),
}
"""Processes, stages and options by the name of the place."""


def train(run: Runner, optimizer: str, place: str, *more: str | Path) -> str:
    processes, _, strategy = PLACES[place]
    options = flags({**OPTIONS, "optimizer": optimizer, "lr": RATES[optimizer]})
    ended = run("train", *options, *strategy, *more, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return ended.out


@pytest.fixture(scope="module")
def on_one_process(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a run of each optimizer."""
    run = Runner(tmp_path_factory.mktemp("on_one_process"))
    for optimizer in RATES:
        train(run, optimizer, "one process", "--output", optimizer)
    return run.folder


@pytest.mark.parametrize(
    ("optimizer", "before", "after"),
    [
        ("lars", "pipeline 2", "FSDP2 2"),
        ("lamb", "FSDP2 2", "pipeline 2"),
        ("novograd", "FSDP2 2", "pipeline 2"),
        ("muon", "pipeline 2", "FSDP2 2"),
        *(slow(optimizer, "DDP 3", "FSDP2 3") for optimizer in RATES),
        *(chaos(optimizer, "HSDP 2 x 2", "DDP 2") for optimizer in RATES),
        *(chaos(optimizer, "FSDP2 3", "one process") for optimizer in RATES),
    ],
)
def test_run_and_what_resumes_from_it_elsewhere_are_those_of_one_process(
    run: Runner, on_one_process: Path, optimizer: str, before: str, after: str
) -> None:
    one, here, there = on_one_process / optimizer, run.folder / "here", run.folder / "there"
    train(run, optimizer, before, "--output", here)
    processes, stages, _ = PLACES[before]
    assert len(losses(one, 1)) == 6
    assert losses(here, processes, 6) == pytest.approx(losses(one, 1), rel=1e-9)
    assert ids(here, processes, stages) == ids(one, 1)
    assert greatest_difference(here, one) < 1e-7

    out = train(run, optimizer, after, "--resume", here / "checkpoints" / "update_000003", "--output", there)
    assert "resumed at epoch 1 of 1, update 3" in out
    assert [record["update"] for record in read_metrics(there, "progress")] == [1, 2, 3, 4, 5, 6]
    assert greatest_difference(there, one) < 1e-7


@pytest.mark.parametrize("optimizer", ["lars", slow("lamb"), slow("novograd"), "muon"])
def test_exact_run_is_bit_identical_on_two_processes(run: Runner, optimizer: str) -> None:
    for place in ("one process", "DDP 2"):
        train(run, optimizer, place, "--exact", "--output", place)
    one, two = (run.folder / place / "model.safetensors" for place in ("one process", "DDP 2"))
    assert one.read_bytes() == two.read_bytes()
