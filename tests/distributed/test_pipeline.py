"""With --exact a pipeline computes what one process computes, bit for bit; each process stores its own stage."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
from helpers.checkpoints import WRITES_RESTORED_TENSORS, stored
from helpers.comparing import flags
from helpers.marks import chaos, slow
from helpers.runner import Runner, read_metrics
from torch import Tensor, nn
from torchvision.models import resnet18

pytestmark = pytest.mark.xdist_group("pipeline")  # the tests share runs

HERE = Path(__file__).parent
EXACT = {
    **{"data": "fashion-mnist", "augment": "standard", "epochs": 1, "batch_size": 8, "device": "cpu", "lr": 0.05},
    **{"clip_norm": 0.5, "ema": 200, "save_every": "5updates", "keep": 9, "log_every": 1},
}
PLACES: dict[str, tuple[int, dict[str, Any]]] = {
    "one process": (1, {}),
    "DDP 2": (2, {}),
    "DDP 4": (4, {}),
    "1f1b 2": (2, {"pipeline_stages": 2, "pipeline_schedule": "1f1b"}),
    "gpipe 2": (2, {"pipeline_stages": 2, "pipeline_schedule": "gpipe"}),
    "1f1b 4": (4, {"pipeline_stages": 4}),
    "gpipe 4": (4, {"pipeline_stages": 4, "pipeline_schedule": "gpipe"}),
    "DDP 2 × 1f1b 2": (4, {"pipeline_stages": 2, "pipeline_schedule": "1f1b"}),
    "DDP 2 × gpipe 2": (4, {"pipeline_stages": 2, "pipeline_schedule": "gpipe"}),
}
"""Processes and options."""


def options_of(place: str) -> dict[str, Any]:
    _, options = PLACES[place]
    return options | ({"strategy": "pipeline"} if options else {})


def carry_out(run: Runner, place: str, options: dict[str, Any], *more: str) -> str:
    """Run to the end and return what was printed."""
    words = flags(options | options_of(place))
    ended = run("train", *words, *more, processes=PLACES[place][0], PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    return ended.out


def written(output: Path) -> dict[str, bytes]:
    """Return the exported weights and the tensors of the last checkpoint."""
    files = {name: (output / name).read_bytes() for name in ("model.safetensors", "best.safetensors")}
    return files | as_bytes(stored(max(output.glob("checkpoints/update_*"))))


def as_bytes(tensors: dict[str, Tensor]) -> dict[str, bytes]:
    return {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


@pytest.fixture(scope="module")
def on_one_process(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """Return the folder of an uninterrupted exact run of a model, with N micro-batches per update, on one process."""

    @cache
    def folder(model: str, micro_batches: int) -> Path:
        run = Runner(tmp_path_factory.mktemp("one_process"))
        carry_out(run, "one process", exact(model, micro_batches, run.folder / "out"), "--exact")
        return run.folder / "out"

    return folder


def exact(model: str, micro_batches: int, output: str | Path = "out") -> dict[str, Any]:
    images = 8 * micro_batches
    return {**EXACT, "model": model, "global_batch_size": images, "limit": 15 * images, "output": output}


@pytest.mark.parametrize(
    ("model", "micro_batches", "place"),
    [
        ("networks:named", 3, "DDP 2 × 1f1b 2"),  # two micro-batches on the first replica, one on the second
        ("networks:named", 3, "gpipe 2"),
        slow("networks:residual", 8, "1f1b 4"),
        slow("cnn", 8, "DDP 2 × gpipe 2"),
        *(chaos(model, 8, place) for model in ("cnn", "networks:named") for place in PLACES if place != "one process"),
    ],
)
def test_exact_run_is_bit_identical_to_one_process(
    run: Runner, on_one_process: Callable[[str, int], Path], model: str, micro_batches: int, place: str
) -> None:
    out = carry_out(run, place, exact(model, micro_batches), "--exact")
    found, expected = written(run.folder / "out"), written(on_one_process(model, micro_batches))
    assert [name for name in found | expected if found.get(name) != expected.get(name)] == []
    if options_of(place):
        assert "note: the model is cut: stage 0: " in out
        (alone,), (piped,) = (
            read_metrics(f, "end") for f in (on_one_process(model, micro_batches), run.folder / "out")
        )
        assert piped["best_val_accuracy"] == alone["best_val_accuracy"]


MOVES = ("one process", "1f1b 2", "DDP 2 × 1f1b 2", "DDP 2", "one process")


@pytest.mark.parametrize("model", ["networks:named", slow("resnet18")])
def test_checkpoints_move_in_mid_epoch_and_keep_all_bits(run: Runner, model: str) -> None:
    """Each place resumes from the checkpoint of the one before, and trains on to the end."""
    options = {**exact(model, 4), "data": "digits", "augment": "none", "limit": 192, "save_every": "1updates"}
    carry_out(run, "one process", options, "--exact")
    expected, source = written(run.folder / "out"), run.folder / "out"
    for update, place in enumerate(MOVES, start=1):
        processes, after = PLACES[place][0], run.folder / f"after {update}"
        checkpoint = source / "checkpoints" / f"update_{update:06}"
        words = flags({**options, "output": after, "resume": checkpoint} | options_of(place))
        command = ("-c", WRITES_RESTORED_TENSORS, "train", *words, "--exact")
        ended = run.script(*command, processes=processes, PYTHONPATH=str(HERE), CUDA_VISIBLE_DEVICES="")
        assert ended.code == 0, ended.err
        restored: dict[str, Tensor] = {}
        for rank in range(processes):
            restored |= safetensors.torch.load_file(run.folder / f"restored_by_{rank}.safetensors")
        assert as_bytes(restored) == as_bytes(stored(checkpoint))
        assert written(after) == expected, place
        source = after
    if model == "resnet18":
        plain = resnet18(num_classes=10)
        plain.conv1 = nn.Conv2d(3, 64, kernel_size=3, padding=1, bias=False)  # for small images
        plain.load_state_dict(safetensors.torch.load_file(source / "model.safetensors"), strict=True)


@pytest.mark.chaos
@pytest.mark.parametrize("model", ["resnet18", "vgg11_bn", "convnext_tiny", "swin_t", "swin_v2_t", "vit_b_32"])
def test_families_of_torchvision_are_bit_identical_to_one_process(run: Runner, model: str) -> None:
    size = 224 if model.startswith("vit") else 32
    options = {"data": "digits", "model": model, "image_size": size, "epochs": 1, "limit": 16, "device": "cpu"}
    options |= {"batch_size": 2, "global_batch_size": 8}
    for place in ("one process", "1f1b 2"):
        carry_out(run, place, {**options, "output": place}, "--exact")
    assert written(run.folder / "one process") == written(run.folder / "1f1b 2")


@pytest.mark.slow
def test_activation_checkpointing_changes_no_bit(run: Runner, on_one_process: Callable[[str, int], Path]) -> None:
    carry_out(run, "1f1b 2", exact("networks:residual", 8), "--exact", "--activation-checkpointing")
    assert written(run.folder / "out") == written(on_one_process("networks:residual", 8))


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        (
            {"model": "densenet121", "pipeline_stages": 2},
            "densenet121 cannot be cut into stages: its forward pass is not known as a sequence of blocks",
            "use cnn, mlp, airbench, airbench94, wide_resnet, a ResNet, VGG, ConvNeXt, ViT or Swin of torchvision",
        ),
        slow({"model": "mlp", "pipeline_stages": 3}, "--pipeline-stages 3 must divide the 2 processes", "choose"),
        (
            {"model": "mlp", "pipeline_stages": 2, "pipeline_split": "fc"},
            "--pipeline-split fc: no stage can start at fc",
            "choose from 1, 2, 3, 4, 5",
        ),
        slow(
            {"model": "mlp", "pipeline_stages": 2, "pipeline_split": "1"},
            "stage 0 of --strategy pipeline, from 0 on, has no trainable parameters",
            "use fewer --pipeline-stages, or name other modules in --pipeline-split",
        ),
        slow(
            {"model": "mlp", "pipeline_stages": 2, "compile": True},
            "--compile does not work with Pipeline yet",
            "leave",
        ),
    ],
)
def test_what_cannot_be_cut_is_rejected(run: Runner, options: dict[str, Any], error: str, hint: str) -> None:
    words = flags({"data": "digits", "limit": 64, "device": "cpu", "strategy": "pipeline"} | options)
    words = [word for word in words if word != "True"]
    ended = run("train", *words, processes=2, CUDA_VISIBLE_DEVICES="")
    assert ended.code == 2
    assert ended.err.splitlines()[0].startswith(f"error: {error}")
    assert ended.err.splitlines()[1].startswith(f"hint: {hint}")


@pytest.mark.parametrize(
    ("schedule", "kind", "rank"),
    [
        slow("1f1b", "forward", 1),
        *(chaos(s, k, r) for s in ("1f1b", "gpipe") for k in ("forward", "backward") for r in (0, 1)),
    ],
)
def test_stage_that_hangs_in_a_pass_is_named_and_killed(run: Runner, schedule: str, kind: str, rank: int) -> None:
    """It still has a heartbeat, and all stages have made some passes of the update."""
    options = {"data": "digits", "model": "networks:hanging", "limit": 320, "epochs": 1, "batch_size": 8, "timeout": 5}
    options |= {"accumulate": 4, "strategy": "pipeline", "pipeline_stages": 2, "pipeline_schedule": schedule}
    words = flags({**options, "pipeline_split": "3", "device": "cpu"})
    hanging = {"HANGS_ON": str(rank), "HANGS_IN": kind, "PYTHONPATH": str(HERE), "CUDA_VISIBLE_DEVICES": ""}
    ended = run("train", *words, processes=2, **hanging)
    assert ended.code != 0
    assert f"rank {rank} (process" in ended.err
    assert f"rank {1 - rank} (process" not in ended.err


STORES = f"""
import gc, json, sys, torch
sys.path.insert(0, {str(HERE)!r})
from accel_train.config.load import make_config
from accel_train.config.options import TrainConfig
from accel_train.distributed.accelerator import stop
from accel_train.run.build import build_run
from accel_train.run.session import Session
from accel_train.system.signals import StopSignals

run = build_run(make_config(TrainConfig, json.loads(sys.argv[1]), {{}}), {{}})
for event in Session(run, StopSignals()).events():
    pass
gc.collect()
updater = run.training.updater
state = [t for of in updater.optimizer.state.values() for t in of.values() if t.numel() > 1]
kinds = {{
    "parameters": [*updater.model.parameters()],
    "gradients": [p.grad for p in updater.model.parameters()],
    "optimizer": state,
    "average": [*updater.ema.tensors().values()],
    "alive": [t for t in gc.get_objects() if isinstance(t, torch.nn.Parameter)],
}}
sizes = {{name: sum(t.nbytes for t in tensors) for name, tensors in kinds.items()}}
print(json.dumps([run.processes.rank, sizes, list(run.plain_model.state_dict())]), flush=True)
stop()
"""


def test_each_process_stores_its_own_stage_only(run: Runner) -> None:
    options = {"data": "digits", "model": "mlp", "limit": 64, "batch_size": 8, "epochs": 1, "ema": 100, "device": "cpu"}
    options |= {"strategy": "pipeline", "pipeline_stages": 2, "pipeline_split": ["3"], "output": str(run.folder / "o")}
    ended = run.script("-c", STORES, json.dumps(options), processes=2, CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    sizes = {rank: of for rank, of, _ in ended.records}
    names = {rank: of for rank, _, of in ended.records}
    own = {0: 4 * (64 + 1) * 256, 1: 4 * ((256 + 1) * 256 + (256 + 1) * 10)}
    for rank, expected in own.items():
        assert sizes[rank] == dict.fromkeys(("parameters", "gradients", "optimizer", "average", "alive"), expected)
    assert names == {0: ["1.weight", "1.bias"], 1: ["3.weight", "3.bias", "5.weight", "5.bias"]}
