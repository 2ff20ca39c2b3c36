"""Measures how each technique changes the speed of an update: our defaults, and one setting changed at a time.

An update is forward pass, backward pass and optimizer, on one batch in memory. The variants take turns, each turn in a
process of its own; images/s are measured from the second update on. Prints medians and ranges over the rounds, also of
the ratios to our defaults in the same round.

    python benchmarks/techniques.py --rounds 5

Shape suffixes: B images, C channels, H height, W width.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional

from accel_train.models.build import build_model
from accel_train.training.optimizers import build_optimizer
from accel_train.training.torch_settings import benchmark_convolutions, compile_model, keep_freed_memory

CLASSES = 10


@dataclass(frozen=True)
class Work:
    """The model's images and batches."""

    channels: int
    size: int
    """Height and width, pixels."""
    batch_size: int
    updates: int
    """Default number per turn."""


@dataclass(frozen=True)
class Variant:
    """How the model is trained; the defaults are those of accel_train."""

    channels_last: bool = True
    freed_memory_kept: bool = True
    fused: bool = True
    bf16: bool = False
    tf32: bool = False
    cudnn_benchmark: bool = False
    compiled: bool = False


@dataclass(frozen=True)
class Found:
    """Speed of one turn."""

    images_per_second: float
    seconds_to_first_update: float


WORKS = {"cnn": Work(1, 28, 64, 100), "resnet18": Work(3, 64, 64, 8), "resnet50": Work(3, 224, 16, 3)}
BASE = "our defaults"
VARIANTS = {
    BASE: Variant(),
    "channels first": Variant(channels_last=False),
    "freed memory returned": Variant(freed_memory_kept=False),
    "foreach optimizer": Variant(fused=False),
    "bf16 autocast": Variant(bf16=True),
    "TF32": Variant(tf32=True),
    "cuDNN benchmark": Variant(cudnn_benchmark=True),
    "compiled": Variant(compiled=True),
}
_ONLY_ON = {"freed memory returned": "cpu", "TF32": "cuda", "cuDNN benchmark": "cuda"}
"""The only device on which a variant makes a difference."""


def main() -> None:
    options = _parse()
    if options.turn:
        (model,) = options.works
        found = train(model, VARIANTS[options.turn], options.updates, options.threads, torch.device(options.device))
        sys.stdout.write(json.dumps(asdict(found)))
        return
    sys.stdout.write(f"torch {torch.__version__}, {_describe(options.device)}, {options.threads} threads\n")
    for model in options.works:
        work = WORKS[model]
        words = ["--works", model, "--updates", str(options.updates or work.updates)]
        words += ["--threads", str(options.threads), "--device", options.device]
        rounds = [{name: _take_turn(name, words) for name in options.variants} for _ in range(options.rounds)]
        sys.stdout.write(f"\n{model}, {work.size} pixels, batch {work.batch_size}\n\n{_table(rounds)}")
        sys.stdout.flush()


def train(model: str, variant: Variant, updates: int, threads: int, device: torch.device) -> Found:
    """Train in this process, whose global options must not have been changed before."""
    torch.set_num_threads(threads)
    if variant.freed_memory_kept:
        keep_freed_memory()
    torch.set_float32_matmul_precision("high" if variant.tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = variant.tf32
    torch.manual_seed(0)
    work, layout = WORKS[model], torch.channels_last if variant.channels_last else torch.contiguous_format
    built = build_model(model, classes=CLASSES, channels=work.channels, data_size=work.size, image_size=None)
    module = built.module.to(device).to(memory_format=layout).train()
    if variant.cudnn_benchmark:
        benchmark_convolutions(device)
    if variant.compiled:
        compile_model(module, device)
    optimizer = _optimizer(module, variant.fused)
    images_BCHW = torch.randn(work.batch_size, work.channels, work.size, work.size, device=device)
    images_BCHW = images_BCHW.to(memory_format=layout)
    labels_B = torch.randint(0, CLASSES, (work.batch_size,), device=device)
    moments = [_now(device)]
    for update in range(updates):
        with torch.autocast(device.type, torch.bfloat16, enabled=variant.bf16):
            loss = functional.cross_entropy(module(images_BCHW), labels_B)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if update in (0, updates - 1):
            moments.append(_now(device))
    start, first, last = moments
    return Found((updates - 1) * work.batch_size / (last - first), first - start)


def _optimizer(module: nn.Module, fused: bool) -> torch.optim.Optimizer:
    optimizer = build_optimizer("sgd", module, weight_decay=5e-4, betas=(0.9, 0.999), eps=1e-8, fused=fused)
    for group in optimizer.param_groups:
        group["lr"] = 0.01
    return optimizer


def _now(device: torch.device) -> float:
    if device.type != "cpu":
        torch.accelerator.synchronize()
    return time.perf_counter()


def _take_turn(name: str, words: Sequence[str]) -> Found:
    with tempfile.TemporaryDirectory() as cache:  # each turn compiles from scratch
        ended = subprocess.run(
            [sys.executable, __file__, *words, "--turn", name],
            stdout=subprocess.PIPE,
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache},
            check=True,
        )
    found = Found(**json.loads(ended.stdout))
    sys.stderr.write(f"{name}: {found.images_per_second:,.1f} images/s\n")
    return found


def _describe(device: str) -> str:
    """Return the name of the device, and whether it has bf16 units."""
    if device == "cuda":
        has_bf16, name = torch.cuda.is_bf16_supported(including_emulation=False), torch.cuda.get_device_name()
    else:
        can = torch.cpu.get_capabilities()
        has_bf16, name = bool(can.get("avx512_bf16") or can.get("amx_bf16")), str(can.get("cpu_name", "CPU"))
    return f"{name} {'with' if has_bf16 else 'without'} bf16 units"


def _table(rounds: Sequence[dict[str, Found]]) -> str:
    rows = [["", "images/s", "÷ our defaults", "first update, s"], ["---"] * 4]
    for name in rounds[0]:
        speeds = [found[name].images_per_second for found in rounds]
        ratios = [speed / found[BASE].images_per_second for speed, found in zip(speeds, rounds, strict=True)]
        first = statistics.median(found[name].seconds_to_first_update for found in rounds)
        rows.append([name, _spread(speeds, ",.1f"), _spread(ratios, ".2f"), f"{first:.2f}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}–{max(values):{form}})"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=list(WORKS))
    parser.add_argument(
        "--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS), help="in addition to our defaults"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, help="per turn. Default: by work")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--turn", help=argparse.SUPPRESS)  # for the subprocess
    options = parser.parse_args()
    if options.updates is not None and options.updates < 2:
        parser.error(f"--updates {options.updates}: give at least 2: images/s are measured from the second on")
    chosen = {BASE, *options.variants}
    options.variants = [name for name in VARIANTS if name in chosen and _ONLY_ON.get(name) in (None, options.device)]
    return options


if __name__ == "__main__":
    main()
