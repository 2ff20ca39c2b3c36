"""Files of the current folder never replace modules that we import; a user's own functions are found there."""

import sys
import sysconfig
from pathlib import Path

import pytest
from helpers.marks import chaos, slow
from helpers.runner import Runner

TRAIN = ["train", "--data", "synthetic:64,1,8,8,2", "--epochs", "1", "--batch-size", "8", "--device", "cpu", "--quiet"]
BIN = sysconfig.get_path("scripts")
OURS = f"{BIN}/accel_train"
PYTHON_M = (sys.executable, "-m", "accel_train")
STANDARD = ("queue", "random", "json", "statistics", "colorsys", "wave")
INSTALLED = ("torch", "torchvision", "accelerate", "yaml", "rich", "safetensors", "psutil")
NETS = """
from torch import nn
from sizes import HIDDEN
def build(classes, channels):
    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, HIDDEN), nn.Linear(HIDDEN, classes))
"""


@pytest.fixture
def folder(run: Runner) -> Path:
    """Fill the current folder with modules that must not be imported, and with a user's model."""
    for name in (*STANDARD, *INSTALLED):
        (run.folder / f"{name}.py").write_text(f"raise RuntimeError('{name}.py of the current folder')\n")
    (run.folder / "numpy").mkdir()
    (run.folder / "numpy" / "__init__.py").write_text("raise RuntimeError('numpy/ of the current folder')\n")
    (run.folder / "my").mkdir()
    (run.folder / "my" / "nets.py").write_text(NETS)
    (run.folder / "sizes.py").write_text("HIDDEN = 3\n")
    return run.folder


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ((OURS,), ("--model", "my.nets:build", "--processes", "2")),
        chaos((OURS,), ("--model", "my.nets:build")),
        chaos(PYTHON_M, ("--model", "mlp", "--processes", "2")),
        (PYTHON_M, ("--model", "my.nets:build")),
        slow((f"{BIN}/torchrun", "--standalone", "--nproc_per_node", "2", *PYTHON_M[1:]), ("--model", "my.nets:build")),
        slow((f"{BIN}/accelerate", "launch", "--cpu", "--num_processes", "2", *PYTHON_M[1:]), ("--model", "mlp")),
    ],
)
def test_modules_of_the_current_folder_are_not_imported_instead_of_ours(
    run: Runner, folder: Path, command: tuple[str, ...], options: tuple[str, ...]
) -> None:
    ended = run.program([*command, *TRAIN, *options])
    assert ended.code == 0, ended.err
    assert "validation accuracy" in ended.out


@pytest.mark.slow
def test_benchmark_does_not_import_from_the_current_folder(run: Runner, folder: Path) -> None:
    options = ("--batch-sizes", "64", "--devices", "cpu", "--updates", "30", "--against", "bare", "--json")
    ended = run.program([OURS, "bench", *options])
    assert ended.code == 0, ended.err


def test_processes_do_not_run_a_file_named_accel_train(run: Runner, folder: Path) -> None:
    (run.folder / "accel_train.py").write_text("raise SystemExit('a user script')\n")
    ended = run.program([OURS, *TRAIN, "--model", "mlp", "--processes", "2"])
    assert ended.code == 0, ended.err
