"""--weights takes only the weights of a run, and needs them no more after the first checkpoint."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from helpers.faults import ON_CPU, TINY, finished, started

MODEL = ("--model", "mlp", "--batch-size", "8", *ON_CPU)
STANDS_STILL = ("--lr", "1e-30", "--epochs", "1")
HEAD = {"5.weight", "5.bias"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that has ended."""
    folder = tmp_path_factory.mktemp("source")
    finished(folder, "--output", folder / "run", *TINY, "--epochs", "1")
    return folder / "run"


@pytest.mark.parametrize("name", ["", "model.safetensors"])
def test_weights_are_loaded_from_a_run_or_a_file(name: str, source: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    program = finished(tmp_path, "--output", output, "--weights", source / name, *TINY, *STANDS_STILL)
    assert f"note: weights from {source / 'model.safetensors'}: 6 tensors\n" in program.out
    assert "\nepoch 1/1 " in program.out
    assert program.resumed() == 0
    assert [path.name for path in (output / "checkpoints").iterdir()] == ["update_000008"]
    assert (output / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes()


def test_replaced_head_is_reported(source: Path, tmp_path: Path) -> None:
    output = tmp_path / "run"
    data = ("--data", "synthetic:64,1,8,8,3")
    program = finished(tmp_path, "--output", output, "--weights", source, *data, *MODEL, *STANDS_STILL)
    assert "note: head 5 replaced: 2 → 3 classes\n" in program.out
    begun, ended = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (source, output))
    assert {name for name in ended if not torch.equal(begun[name], ended[name])} == HEAD


@pytest.mark.parametrize("classes", [["0", "cat"], ["1", "0"]], ids=["another name", "another order"])
def test_head_for_as_many_other_classes_is_replaced(source: Path, tmp_path: Path, classes: list[str]) -> None:
    other, output = shutil.copytree(source, tmp_path / "other"), tmp_path / "run"
    description = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(description | {"classes": classes}))
    program = finished(tmp_path, "--output", output, "--weights", other, *TINY, *STANDS_STILL)
    assert "note: head 5 replaced: other classes\n" in program.out
    begun, ended = (safetensors.torch.load_file(folder / "model.safetensors") for folder in (source, output))
    assert {name for name in ended if not torch.equal(begun[name], ended[name])} == HEAD


def test_run_resumes_without_its_initial_weights(source: Path, tmp_path: Path) -> None:
    begun = shutil.copytree(source, tmp_path / "begun")
    words = ("--output", tmp_path / "run", "--weights", begun, *TINY, "--epochs", "500")
    with started(tmp_path, *words) as program:
        program.wait_for(lambda: program.saved() > 0)
    shutil.rmtree(begun)
    with started(tmp_path, *words) as program:
        program.wait_for(lambda: program.resumed() > 0)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "is missing": lambda file: None,
    "is damaged": lambda file: file.write_bytes(b"no weights"),
    "is of another model": lambda file: safetensors.torch.save_file({"weight": torch.ones(2)}, file),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_wrong_file_is_one_error(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "begin.safetensors"
    DAMAGES[damage](file)
    program = finished(tmp_path, "--output", tmp_path / "run", "--weights", file, *TINY, code=2)
    assert [line.partition(":")[0] for line in program.err.splitlines()] == ["error", "hint"], program.err
    assert str(file) in program.err
    assert not (tmp_path / "run").exists()
