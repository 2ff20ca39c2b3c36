"""--activation-checkpointing changes no bit of a run, under every strategy, and a resumed run may change it."""

from pathlib import Path

import pytest
import safetensors.torch
from helpers.comparing import flags
from helpers.marks import slow
from helpers.runner import Runner

HERE = Path(__file__).parent
OPTIONS = {
    "model": "networks:residual",
    "limit": 320,
    "batch_size": 8,
    "global_batch_size": 64,
    "epochs": 2,
    "lr": 0.05,
}
OPTIONS |= {"augment": "standard", "save_every": "1epoch", "keep": 9, "device": "cpu", "ema": 200, "clip_norm": 1.0}
SWITCH = "--activation-checkpointing"


def weights(run: Runner, name: str, *more: str, processes: int = 1) -> bytes:
    """Train, and return the file of the last weights and buffers."""
    words = ("train", *flags(OPTIONS), *more, "--output", name)
    ended = run(*words, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return (run.folder / name / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("processes", "strategy"),
    [
        (1, ()),
        (2, ("--exact",)),
        slow(2, ("--strategy", "ddp", "--precision", "bf16")),
        (2, ("--strategy", "fsdp2")),
        slow(4, ("--strategy", "hsdp", "--shard-size", "2")),
        slow(2, ("--strategy", "pipeline", "--pipeline-stages", "2")),
    ],
    ids=["one process", "exact", "DDP in bf16", "FSDP2", "HSDP", "pipeline"],
)
def test_no_bit_changes(run: Runner, processes: int, strategy: tuple[str, ...]) -> None:
    plain = weights(run, "plain", *strategy, processes=processes)
    assert weights(run, "checkpointed", *strategy, SWITCH, processes=processes) == plain
    tensors = safetensors.torch.load_file(run.folder / "checkpointed" / "model.safetensors")
    counters = {name: int(tensor) for name, tensor in tensors.items() if name.endswith("num_batches_tracked")}
    assert set(counters.values()) == {10}  # updates
    assert len(counters) == 7


def test_resumed_run_may_change_it(run: Runner) -> None:
    plain = weights(run, "plain")
    middle = run.folder / "plain/checkpoints/update_000005"
    assert weights(run, "resumed", SWITCH, "--resume", str(middle)) == plain


def test_model_without_blocks_is_one_error(run: Runner) -> None:
    ended = run("train", "--model", "mlp", SWITCH, "--limit", "64")
    assert (ended.code, ended.err) == (
        2,
        "error: --activation-checkpointing has no effect on mlp: no part of it repeats\n"
        "hint: leave it out, or choose a model of blocks, such as a ResNet or a transformer\n",
    )
