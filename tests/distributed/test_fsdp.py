"""FSDP2 and HSDP store a share of the model on each process and compute what DDP computes."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.comparing import flags, greatest_difference, losses
from helpers.marks import slow
from helpers.runner import LAUNCHERS, Runner, read_metrics

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "accelerate_configs" / "fsdp2_cpu_2_processes.yaml"
UPDATES = 2
CLIPPED_TO = 0.5
TRAINS = f"""
import json, sys, torch
import torchvision
from torch import nn
from accel_train.distributed.accelerator import start, stop
from accel_train.training.batch_norm import BatchNormBuffers

strategy, precision, options = sys.argv[1:]
processes = start(
    device="cpu", backend=None, precision=precision, timeout=60, strategy=strategy, options=json.loads(options)
)
accelerator, strategy = processes.accelerator, processes.strategy

def build():
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=16).to(processes.dtype)

module = build().to(memory_format=torch.channels_last)
model, optimizer = strategy.prepare(accelerator, module, torch.optim.Adam(module.parameters(), eps=1e-3))
plain = strategy.plain_model(accelerator, model)
batch_norm = BatchNormBuffers(plain)
losses, norms = [], []
for update in range({UPDATES}):
    torch.manual_seed(processes.count * update + processes.rank)
    optimizer.zero_grad()
    batch_norm.begin_micro_batch()
    images = torch.randn(4, 3, 32, 32, dtype=processes.dtype).to(memory_format=torch.channels_last)
    loss = nn.functional.cross_entropy(model(images), torch.randint(16, (4,)))
    accelerator.backward(loss)
    batch_norm.end_micro_batch()
    norms.append(strategy.full(accelerator.clip_grad_norm_(model.parameters(), {CLIPPED_TO})).item())
    gradients = [strategy.local(p.grad) for p in plain.parameters()]
    clipped = strategy.full(torch.nn.utils.get_total_norm([p.grad for p in plain.parameters()])).item()
    optimizer.step()
    change = batch_norm.take_change()
    if change.numel():
        batch_norm.end_update(accelerator.reduce(change, "sum"), processes.count)
    losses.append(accelerator.reduce(loss.detach(), "mean").item())

weights = processes.full_weights(model)
state = [strategy.local(t) for s in optimizer.state.values() for t in s.values() if t.numel() > 1]
parts = {{"parameters": [strategy.local(p) for p in plain.parameters()], "gradients": gradients, "optimizer": state}}
if processes.is_main:
    fresh = build()
    fresh.load_state_dict(weights, strict=True)
    print(json.dumps({{
        "strategy": processes.strategy_name,
        "losses": losses,
        "norms": norms,
        "clipped": clipped,
        "bytes": {{name: sum(t.numel() * t.element_size() for t in part) for name, part in parts.items()}},
        "statistics": sum(b.double().abs().sum().item() for b in fresh.buffers()),
        "weights": sum(p.double().abs().sum().item() for p in fresh.parameters()),
        "types": sorted({{str(w.dtype) for w in weights.values()}}),
    }}))
else:
    assert not weights
stop()
"""


def trained(run: Runner, strategy: str, precision: str = "fp64", processes: int = 2, **options: int) -> Any:
    """Return what `TRAINS` prints."""
    return result(run, "-c", TRAINS, strategy, precision, json.dumps(options), processes=processes)


def result(run: Runner, *words: str | Path, processes: int = 2) -> Any:
    """Run a script and return the JSON line that rank 0 prints."""
    ended = run.script(*words, processes=processes, CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err
    (found,) = ended.records
    return found


@pytest.mark.parametrize(
    ("processes", "sharded"),
    [
        (2, {"FSDP2": ("fsdp2", {}, 1 / 2)}),
        slow(
            4,
            {
                "FSDP2": ("fsdp2", {}, 1 / 4),
                "HSDP: 2 replicas × 2 shards": ("hsdp", {"shard_size": 2}, 1 / 2),
            },
        ),
    ],
    ids=["2 processes", "4 processes"],
)
def test_each_process_stores_its_share_and_clips_by_the_full_norm(
    run: Runner, processes: int, sharded: dict[str, tuple[str, dict[str, int], float]]
) -> None:
    ddp = trained(run, "ddp", processes=processes)
    assert ddp["strategy"] == "DDP"
    assert min(ddp["norms"]) > 2 * CLIPPED_TO
    for description, (strategy, options, share) in sharded.items():
        found = trained(run, strategy, processes=processes, **options)
        assert found["strategy"] == description
        for part, whole in ddp["bytes"].items():
            assert found["bytes"][part] == pytest.approx(whole * share, rel=0.05), (description, part)
        for name in ("losses", "norms", "clipped", "statistics", "weights"):
            assert found[name] == pytest.approx(ddp[name], rel=1e-6), (description, name)
        assert found["clipped"] == pytest.approx(CLIPPED_TO, rel=1e-6)


def test_bf16_keeps_fp32_weights_and_matches_ddp(run: Runner) -> None:
    ddp, fsdp2 = (trained(run, strategy, "bf16") for strategy in ("ddp", "fsdp2"))
    assert fsdp2["losses"][0] == pytest.approx(ddp["losses"][0], rel=1e-5)
    assert fsdp2["norms"][0] == pytest.approx(ddp["norms"][0], rel=0.02)
    assert fsdp2["types"] == ddp["types"] == ["torch.float32", "torch.int64"]


def test_fewer_validation_images_than_processes_times_batch_size_are_counted(run: Runner) -> None:
    ddp, fsdp2 = (result(run, HERE / "count_images.py", strategy, "3") for strategy in ("ddp", "fsdp2"))
    assert fsdp2[0] == 3
    assert fsdp2[2] == pytest.approx(ddp[2], rel=1e-6)


@pytest.mark.parametrize(
    ("precision", "limit", "tolerance"),
    [("fp32", 480, 1e-5), slow("fp64", 9600, 1e-7)],
    ids=["5 updates", "100 updates in fp64"],
)
def test_training_with_batch_norm_and_dropout_matches_ddp(
    run: Runner, precision: str, limit: int, tolerance: float
) -> None:
    options = {"data": "networks:fashion", "model": "networks:normalised", "global_batch_size": 96, "batch_size": 24}
    options |= {"lr": 0.05, "warmup_epochs": 0, "epochs": 1, "log_every": 1, "limit": limit, "precision": precision}
    options["clip_norm"] = 0.5
    for strategy in ("ddp", "fsdp2"):
        words = flags({**options, "device": "cpu", "strategy": strategy, "output": run.folder / strategy})
        ended = run("train", *words, processes=2, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
        assert ended.code == 0, ended.err
    ddp, fsdp2 = (losses(run.folder / strategy, 2) for strategy in ("ddp", "fsdp2"))
    assert len(ddp) == limit // 96
    assert fsdp2 == pytest.approx(ddp, rel=tolerance)
    if precision == "fp64":
        assert greatest_difference(run.folder / "ddp", run.folder / "fsdp2") < tolerance


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ([*LAUNCHERS["accelerate"](1)[:3], "--config_file", str(CONFIG), "-m", "accel_train"], []),
        slow(LAUNCHERS["torchrun"](2), ["--strategy", "fsdp2"]),
        slow(LAUNCHERS["accel_train"](2), ["--strategy", "fsdp2", "--processes", "2"]),
    ],
    ids=["accelerate launch", "torchrun", "--processes"],
)
def test_every_launcher_starts_fsdp2(run: Runner, words: list[str], options: list[str]) -> None:
    small = ("--epochs", "1", "--limit", "64", "--batch-size", "8", "--model", "mlp", "--output", "out")
    ended = run.python([*words, "train", *small, "--no-report", *options], CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    assert (record["strategy"], record["world_size"], record["backend"]) == ("FSDP2", 2, "gloo")


def test_fsdp2_on_one_process_and_fsdp_1_are_rejected(run: Runner) -> None:
    alone = run("train", "--strategy", "fsdp2", CUDA_VISIBLE_DEVICES="")
    assert alone.code == 2
    assert "error: FSDP2 has no effect on a single process" in alone.err
    (run.folder / "old.yaml").write_text(CONFIG.read_text().replace("fsdp_version: 2", "fsdp_version: 1"))
    launch = [*LAUNCHERS["accelerate"](1)[:3], "--config_file", "old.yaml", "-m", "accel_train", "train"]
    old = run.python(launch, CUDA_VISIBLE_DEVICES="")
    assert old.code != 0
    assert "error: FSDP_VERSION=1 asks for FSDP 1, which is not supported" in old.err
    assert "hint: set fsdp_version: 2 in fsdp_config" in old.err
