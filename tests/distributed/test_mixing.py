"""Runs with mixed, repeated and balanced images do not depend on processes, workers, restarts or storage."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
from helpers.checkpoints import stored
from helpers.comparing import flags, ids, mean_losses, relative
from helpers.marks import slow
from helpers.runner import Runner, read_metrics
from PIL import Image

pytestmark = pytest.mark.xdist_group("mixing")  # the tests share runs

HERE = Path(__file__).parent
ENVIRONMENT = {"PYTHONPATH": str(HERE), "CUDA_VISIBLE_DEVICES": ""}
KINDS: dict[str, dict[str, Any]] = {
    "sampling": {"mixup": 0.4, "cutmix": 1, "repeated_augmentation": 2, "balance": "sampling"},
    "weights": {"mixup": 0.4, "balance": "weights"},
}
SIX_MICRO_BATCHES = {
    **{"data": "uneven:digits", "model": "networks:named", "augment": "standard", "label_smoothing": 0.1, "lr": 0.05},
    **{"global_batch_size": 48, "batch_size": 8, "epochs": 2, "clip_norm": 0.5, "ema": 200, "device": "cpu"},
    **{"save_every": "2updates", "keep": 9, "log_every": 1},
}
"""Six updates an epoch."""
PIPELINE = {"strategy": "pipeline", "pipeline_stages": 2}


def carry_out(run: Runner, output: Path, processes: int, options: dict[str, Any], *more: str) -> str:
    """Run to the end and return what was printed."""
    words = flags({**SIX_MICRO_BATCHES, **options, "output": output})
    ended = run("train", *words, *more, processes=processes, **ENVIRONMENT)
    assert ended.code == 0, ended.err
    return ended.out


def written(output: Path) -> dict[str, bytes]:
    """Return the exported weights and the tensors of the last checkpoint."""
    files = {name: (output / name).read_bytes() for name in ("model.safetensors", "best.safetensors")}
    tensors = stored(max(output.glob("checkpoints/update_*")))
    return files | {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def different(found: dict[str, bytes], expected: dict[str, bytes]) -> list[str]:
    """Return the names of the tensors and files that differ."""
    return [name for name in found | expected if found.get(name) != expected.get(name)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of an exact run of a kind on one process."""

    @cache
    def folder(kind: str) -> Path:
        run = Runner(tmp_path_factory.mktemp("one_process"))
        carry_out(run, run.folder / "out", 1, KINDS[kind], "--exact")
        return run.folder / "out"

    return folder


@pytest.mark.parametrize(
    ("kind", "processes", "placed"),
    [
        ("sampling", 2, {}),
        ("sampling", 3, {"workers": 1}),
        ("sampling", 2, PIPELINE),
        ("weights", 3, {}),
        slow("sampling", 1, {"workers": 3}),
        slow("sampling", 4, PIPELINE),
        slow("weights", 2, PIPELINE),
    ],
)
def test_exact_run_is_bit_identical_to_one_process(
    run: Runner, alone: Callable[[str], Path], kind: str, processes: int, placed: dict[str, Any]
) -> None:
    carry_out(run, run.folder / "out", processes, KINDS[kind] | placed, "--exact")
    assert different(written(run.folder / "out"), written(alone(kind))) == []
    (ended,), (expected,) = (read_metrics(folder, "end") for folder in (run.folder / "out", alone(kind)))
    assert ended["updates"] == 12
    assert (ended["train_accuracy"], ended["val_accuracy"]) == (expected["train_accuracy"], expected["val_accuracy"])
    balanced = [
        read_metrics(folder, "epoch")[1]["ema_val_balanced_accuracy"] for folder in (run.folder / "out", alone(kind))
    ]
    assert balanced[0] == balanced[1] != expected["val_accuracy"]


@pytest.mark.parametrize("update", [2, slow(8)])  # an epoch ends at 6
def test_resumed_in_mid_epoch_it_is_bit_identical(run: Runner, alone: Callable[[str], Path], update: int) -> None:
    checkpoint = alone("sampling") / "checkpoints" / f"update_{update:06}"
    carry_out(run, run.folder / "out", 2, KINDS["sampling"] | {"resume": checkpoint}, "--exact")
    assert different(written(run.folder / "out"), written(alone("sampling"))) == []


def test_options_that_mix_and_balance_change_the_run(run: Runner, alone: Callable[[str], Path]) -> None:
    carry_out(run, run.folder / "out", 1, {}, "--exact")
    plain = written(run.folder / "out")
    assert "model.safetensors" in different(plain, written(alone("sampling")))
    assert "model.safetensors" in different(plain, written(alone("weights")))
    assert ids(run.folder / "out", 1) == ids(alone("weights"), 1) != ids(alone("sampling"), 1)


def test_balance_without_labels_is_refused_once(run: Runner) -> None:
    ended = run("train", "--data", "uneven:unlabelled", "--balance", "weights", processes=2, **ENVIRONMENT)
    assert ended.code == 2
    assert ended.err.splitlines()[-2:] == [
        "error: --balance weights needs the label of each training image, which uneven:unlabelled does not give",
        "hint: give the training data `labels`, a list of whole numbers",
    ]
    assert ended.err.count("error:") == 1


@pytest.mark.parametrize("kind", ["sampling", slow("weights")])
def test_gradient_and_losses_in_fp32_are_the_same_on_any_number_of_processes(run: Runner, kind: str) -> None:
    places: dict[str, tuple[int, dict[str, Any]]] = {
        "one": (1, {}),
        "two": (2, {}),
        "three": (3, {}),
        "FSDP2": (2, {"strategy": "fsdp2"}),
    }
    gradients, first_losses = [], []
    for name, (processes, placed) in places.items():
        (folder := run.folder / name).mkdir()
        options = {**SIX_MICRO_BATCHES, "model": "networks:normalised", **KINDS[kind], **placed}
        ended = run.script(HERE / "record_gradient.py", folder, json.dumps(options), processes=processes, **ENVIRONMENT)
        assert ended.code == 0, ended.err
        gradients.append(safetensors.torch.load_file(folder / "gradient.safetensors")["gradient"])
        by_rank = [json.loads((folder / f"losses_{rank}.json").read_text()) for rank in range(processes)]
        first_losses.append(mean_losses(by_rank, 6))
    assert len(first_losses[0]) == 5
    for gradient, others in zip(gradients[1:], first_losses[1:], strict=True):
        assert relative(gradients[0], gradient) < 1e-6
        assert others == pytest.approx(first_losses[0], rel=1e-5)


def test_folder_packed_folder_and_workers_give_the_same_weights(run: Runner) -> None:
    for label, (name, count) in enumerate({"a": 24, "b": 6}.items()):
        (run.folder / "pictures" / name).mkdir(parents=True)
        for number in range(count):
            pixels = np.random.default_rng(100 * label + number).integers(0, 256, (40, 50, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(run.folder / "pictures" / name / f"{number}.png")
    assert run("pack", "pictures", "packed").code == 0
    found = {}
    for data, workers, processes in (("pictures", 0, 1), ("pictures", 3, 2), ("packed", 1, 1)):
        output = run.folder / f"{data} {workers}"
        options = {"data": data, "model": "cnn", "image_size": 24, "global_batch_size": 8, "batch_size": 4, "epochs": 2}
        out = carry_out(run, output, processes, {**options, **KINDS["sampling"], "workers": workers}, "--exact")
        assert "note: --balance sampling: an epoch draws " in out
        found[output.name] = (output / "model.safetensors").read_bytes()
    assert len(set(found.values())) == 1
    last = read_metrics(output, "epoch")[-1]
    (record,) = run("evaluate", output, "--json", processes=2).records
    averaged = last["ema_val_accuracy"], last["ema_val_balanced_accuracy"]
    assert (record["accuracy"], record["balanced_accuracy"]) == averaged
    assert f"balanced {last['val_balanced_accuracy']:.4f}" in out
