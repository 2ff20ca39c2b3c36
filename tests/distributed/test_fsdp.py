"""FSDP2 trains as DDP does, with half of the model on each of two processes."""

from pathlib import Path
from typing import Any

import pytest
from helpers.comparing import flags, greatest_difference, losses
from helpers.runner import LAUNCHERS, Runner, read_metrics

HERE = Path(__file__).parent
CONFIG = HERE.parents[1] / "accelerate_configs" / "fsdp2_cpu_2_processes.yaml"
UPDATES = 2
CLIPPED_TO = 0.5
TRAINS = f"""
import json, os, sys, torch
import torchvision
from torch import nn
from accel_train.distributed import accelerator as distributed
from accel_train.training.batch_norm import RunningStatistics
from accel_train.distributed.strategies.fsdp2 import local_part, whole

strategy, precision = sys.argv[1:]
accelerator, _ = distributed.start(device="cpu", backend=None, precision=precision, timeout=60, strategy=strategy)
dtype = distributed.DTYPES.get(precision, torch.float32)

def build():
    torch.manual_seed(0)
    return torchvision.models.resnet18(num_classes=16).to(dtype)

module = build().to(memory_format=torch.channels_last)
model, optimizer = distributed.prepare(accelerator, module, torch.optim.Adam(module.parameters(), eps=1e-3))
plain = distributed.unwrapped(accelerator, model)
statistics = RunningStatistics(plain)
losses, norms = [], []
for update in range({UPDATES}):
    torch.manual_seed(2 * update + accelerator.process_index)
    optimizer.zero_grad()
    statistics.begin_micro_batch()
    images = torch.randn(4, 3, 32, 32, dtype=dtype).to(memory_format=torch.channels_last)
    loss = nn.functional.cross_entropy(model(images), torch.randint(16, (4,)))
    accelerator.backward(loss)
    statistics.end_micro_batch()
    norms.append(whole(accelerator.clip_grad_norm_(model.parameters(), {CLIPPED_TO})).item())
    gradients = [local_part(p.grad) for p in plain.parameters()]
    clipped = whole(torch.nn.utils.get_total_norm([p.grad for p in plain.parameters()])).item()
    optimizer.step()
    change = statistics.take_change()
    if change.numel():
        statistics.end_update(accelerator.reduce(change, "sum"), 2)
    losses.append(accelerator.reduce(loss.detach(), "mean").item())

weights = distributed.whole_weights(accelerator, model)
state = [local_part(t) for s in optimizer.state.values() for t in s.values() if t.numel() > 1]
parts = {{"parameters": [local_part(p) for p in plain.parameters()], "gradients": gradients, "optimizer": state}}
if accelerator.is_main_process:
    fresh = build()
    fresh.load_state_dict(weights, strict=True)
    print(json.dumps({{
        "strategy": distributed.strategy(accelerator),
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
distributed.stop()
sys.stdout.flush()
os._exit(0)  # at the end of a script, with a DDP model still among its globals, torch 2.14 aborts about once in 16
"""
COUNTS = """
import json, os, sys, torch
from accel_train.distributed import accelerator as distributed
from accel_train.training import loop as engine
from accel_train.data.transforms import ImageTransform
from accel_train.data.open import open_data
from accel_train.data.loader import LoaderSizes, evaluation_loader
from accel_train.data.sources.base import View, spread
from accel_train.config.defaults import Augmentation
from accel_train.models.build import build_model

data = open_data("digits", directory=None, val_fraction=None, seed=0, limit=None)
torch.manual_seed(0)
module = build_model("cnn", classes=10, channels=1, data_size=8, image_size=None).module
accelerator, _ = distributed.start(device="cpu", backend=None, precision=None, timeout=30, strategy=sys.argv[1])
transform = ImageTransform(
    0, Augmentation(), 1, 8, mean=data.mean, std=data.std, dtype=torch.float32, device=accelerator.device
)
sizes = LoaderSizes(4, accelerator.num_processes, 0, False)
loader = evaluation_loader(spread(data.val, 3), View(8, random_crop=False), sizes)
model, _, batches = distributed.prepare(accelerator, module, torch.optim.SGD(module.parameters(), lr=0.1), loader)
found = engine.evaluate(accelerator, model, batches, transform)
if accelerator.is_main_process:
    print(json.dumps([found.images, found.loss]))
distributed.stop()
sys.stdout.flush()
os._exit(0)  # at the end of a script, with a DDP model still among its globals, torch 2.14 aborts about once in 16
"""


def on_two(run: Runner, script: str, *arguments: str) -> Any:
    """Run a script on two processes and return what its first one has found."""
    ended = run.script("-c", script, *arguments, processes=2, CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    assert "Warning" not in ended.err
    (found,) = ended.records
    return found


def test_two_processes_hold_half_each_and_clip_by_the_norm_of_the_whole(run: Runner) -> None:
    ddp, fsdp2 = (on_two(run, TRAINS, strategy, "fp64") for strategy in ("ddp", "fsdp2"))
    assert (ddp["strategy"], fsdp2["strategy"]) == ("DDP", "FSDP2")
    for part, whole in ddp["bytes"].items():
        assert fsdp2["bytes"][part] == pytest.approx(whole / 2, rel=0.05), part
    assert min(ddp["norms"]) > 2 * CLIPPED_TO
    for name in ("losses", "norms", "clipped", "statistics", "weights"):
        assert fsdp2[name] == pytest.approx(ddp[name], rel=1e-6), name
    assert fsdp2["clipped"] == pytest.approx(CLIPPED_TO, rel=1e-6)


def test_bf16_computes_as_under_ddp_with_weights_in_float32(run: Runner) -> None:
    ddp, fsdp2 = (on_two(run, TRAINS, strategy, "bf16") for strategy in ("ddp", "fsdp2"))
    assert fsdp2["losses"][0] == pytest.approx(ddp["losses"][0], rel=1e-5)
    assert fsdp2["norms"][0] == pytest.approx(ddp["norms"][0], rel=0.02)
    assert fsdp2["types"] == ddp["types"] == ["torch.float32", "torch.int64"]


def test_three_validation_images_in_batches_of_four_are_counted(run: Runner) -> None:
    ddp, fsdp2 = (on_two(run, COUNTS, strategy) for strategy in ("ddp", "fsdp2"))
    assert fsdp2[0] == 3
    assert fsdp2[1] == pytest.approx(ddp[1], rel=1e-6)


@pytest.mark.parametrize(
    ("precision", "limit", "tolerance"), [("fp32", 480, 1e-5), ("fp64", 9600, 1e-7)], ids=["5 updates", "100 in fp64"]
)
def test_a_net_with_batch_norm_and_dropout_trains_as_with_ddp(
    run: Runner, precision: str, limit: int, tolerance: float
) -> None:
    options = {"data": "networks:fashion", "model": "networks:normalised", "global_batch_size": 96, "batch_size": 24}
    options |= {"lr": 0.05, "warmup_epochs": 0, "epochs": 1, "log_every": 1, "limit": limit, "precision": precision}
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
        (LAUNCHERS["torchrun"](2), ["--strategy", "fsdp2"]),
        (LAUNCHERS["accel_train"](2), ["--strategy", "fsdp2", "--processes", "2"]),
    ],
    ids=["accelerate launch", "torchrun", "--processes"],
)
def test_every_launcher_starts_it(run: Runner, words: list[str], options: list[str]) -> None:
    small = ("--epochs", "1", "--limit", "64", "--batch-size", "8", "--model", "mlp", "--output", "out")
    ended = run.program([*words, "train", *small, *options], CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    assert (record["strategy"], record["world_size"], record["backend"]) == ("FSDP2", 2, "gloo")


def test_one_process_and_the_old_fsdp_are_refused(run: Runner) -> None:
    alone = run("train", "--strategy", "fsdp2", CUDA_VISIBLE_DEVICES="")
    assert alone.code == 2
    assert "error: FSDP2 has no effect on a single process" in alone.err
    (run.folder / "old.yaml").write_text(CONFIG.read_text().replace("fsdp_version: 2", "fsdp_version: 1"))
    launch = [*LAUNCHERS["accelerate"](1)[:3], "--config_file", "old.yaml", "-m", "accel_train", "train"]
    old = run.program(launch, CUDA_VISIBLE_DEVICES="")
    assert old.code != 0
    assert "error: the launcher's configuration asks for FSDP 1, which is not supported" in old.err
    assert "hint: set fsdp_version: 2 in fsdp_config" in old.err
