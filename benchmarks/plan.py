"""Compares what `accel_train plan` says with what training takes on CPUs: bytes by strategy.

Memory is that of torch's own allocator, as its profiler reports it: each run trains some updates on synthetic images,
and its peak is that of the updates, without the images that the data set holds. FSDP2 and pipelines
run on two processes. Prints one line a run; the ratio is the plan's number over the real one.

    python -m benchmarks.plan --models cnn resnet18 resnet50 --optimizers sgd adamw
    python -m benchmarks.plan --strategies fsdp2 pipeline
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.autograd.profiler import profile

import accel_train

_UPDATES = 3
_BATCH = {"cnn": 512, "resnet18": 32, "resnet50": 8, "vit_b_16": 8, "convnext_tiny": 8, "wide_resnet": 32}
"""Images per micro-batch: enough for activations to outweigh what the formula leaves out, few enough for a laptop."""
_DATA = {"cnn": (1, 28), "wide_resnet": (3, 32)}
"""Channels and pixels; 3 × 224 × 224 for all others."""


def options(model: str, optimizer: str, strategy: str, batch_size: int) -> list[str]:
    channels, pixels = _DATA.get(model, (3, 224))
    processes = 1 if strategy == "single" else 2
    images = _UPDATES * processes * batch_size
    given = {
        "data": f"synthetic:{images},{channels},{pixels},{pixels},10",
        "model": model,
        "optimizer": optimizer,
        "batch-size": batch_size,
        "epochs": 1,
        "device": "cpu",
        "processes": processes,
        **({"strategy": "pipeline", "pipeline-stages": 2} if strategy == "pipeline" else {}),
        **({"strategy": strategy} if strategy in ("ddp", "fsdp2") else {}),
    }
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def planned(words: Sequence[str], strategy: str) -> dict[str, Any]:
    """Return the record of a strategy in the plan, and the seconds that it took."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "accel_train", "plan", "--json", *words]
    record = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
    name = "ddp" if strategy == "single" else strategy
    found = next(r for r in record["strategies"] if r["strategy"] == name and not r["activation_checkpointing"])
    return {**found, "plan_seconds": time.perf_counter() - began}


def real(words: Sequence[str]) -> list[dict[str, int]]:
    """Return what each process of a run took."""
    count = int(words[words.index("--processes") + 1])
    command = [sys.executable, "-m", "benchmarks.plan", "--one", *words]
    if count > 1:
        command[1:3] = ["-m", "torch.distributed.run", "--nproc-per-node", str(count), "-m", "benchmarks.plan"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, "--output", f"{folder}/run"], check=True, stdout=sys.stderr, env=_environment(folder))
        return [json.load(open(f"{folder}/rank_{rank}.json")) for rank in range(count)]  # noqa: PTH123


def _environment(folder: str) -> dict[str, str]:
    return os.environ | {"PLAN_RESULTS": folder, "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}


def train_one(words: Sequence[str]) -> None:
    """Train as a process of a run, and write what it took."""
    values = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}
    config = accel_train.TrainConfig(**values, rank_lines="none", report=False)
    with profile(profile_memory=True) as profiled:
        from accel_train.run.build import build_run
        from accel_train.training.loop import train
        from accel_train.training.state import TrainingState

        run = build_run(config, dict.fromkeys(values, "given"))
        began = time.time_ns()
        events = train(run.training, TrainingState(), lambda: False)
        for event in events:
            if getattr(event, "update", 0) == _UPDATES:
                break
    updater = run.training.updater
    local = updater.strategy.local
    plain = run.plain_model
    state = [v for s in updater.optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    found = {
        "weights": sum(local(t).nbytes for t in plain.state_dict().values()),
        "gradients": sum(local(p.grad).nbytes for p in plain.parameters() if p.grad is not None),
        "optimizer": sum(local(t).nbytes for t in state),
        "peak": _peak(profiled, began) - run.data.train.images_NCHW.nbytes - run.data.val.images_NCHW.nbytes,
    }
    with open(f"{os.environ['PLAN_RESULTS']}/rank_{os.environ.get('RANK', '0')}.json", "w") as file:  # noqa: PTH123
        json.dump(found, file)


def _peak(profiled: Any, began: int) -> int:
    """Return the most bytes that were allocated at once from a time on, in ns since 1970: not while images are made.

    What gloo's threads free is not recorded: an address that is given out again was free.
    """
    events = sorted(_memory_events(profiled.kineto_results.experimental_event_tree()), key=lambda e: e.start_time_ns)
    live: dict[int, int] = {}
    now = most = 0
    for event in events:
        address, size = event.extra_fields.ptr, event.extra_fields.alloc_size
        now += max(size, 0) - live.pop(address, 0)
        if size > 0:
            live[address] = size
        if event.start_time_ns >= began:
            most = max(most, now)
    return most


def _memory_events(nodes: Sequence[Any]) -> Iterator[Any]:
    for node in nodes:
        if node.name == "[memory]":
            yield node
        yield from _memory_events(node.children)


def main() -> None:
    if "--one" in sys.argv:
        train_one(sys.argv[sys.argv.index("--one") + 1 :])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(_BATCH))
    parser.add_argument("--optimizers", nargs="+", default=["sgd", "adamw"])
    parser.add_argument("--strategies", nargs="+", default=["single"])
    asked = parser.parse_args()
    sys.stdout.write(
        "| model | n | optimizer | strategy | weights, gradients, optimizer | peak MB | plan ÷ real | plan s |\n"
    )
    sys.stdout.write("|---|---|---|---|---|---|---|---|\n")
    for model in asked.models:
        for optimizer in asked.optimizers:
            for strategy in asked.strategies:
                _print_row(model, optimizer, strategy)


def _print_row(model: str, optimizer: str, strategy: str) -> None:
    words = options(model, optimizer, strategy, _BATCH[model])
    plan = planned(words, strategy)
    if plan["pipeline_split"]:
        words += ["--pipeline-split", ",".join(plan["pipeline_split"])]
    for rank, found in enumerate(real(words)):
        device = plan["devices"][min(rank, len(plan["devices"]) - 1)]
        parts = ("weights", "gradients", "optimizer")
        off = [device[part] - found[part] for part in parts]
        exact = "exact" if not any(off) else ", ".join(f"{each:+,} B" for each in off)
        place = f"{strategy} {rank}" if plan["devices"][1:] else strategy
        numbers = f"{found['peak'] / 1e6:,.0f} | {device['peak'] / found['peak']:.3f}"
        setting = f"{model} | {_BATCH[model]} | {optimizer} | {place}"
        sys.stdout.write(f"| {setting} | {exact} | {numbers} | {plan['plan_seconds']:.0f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
