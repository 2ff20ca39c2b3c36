"""Runs in a real notebook: shown as they train, on one process and on several."""

import os
from pathlib import Path
from typing import Any

import pytest
from helpers.runner import free_port, read_metrics

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("notebook")]

ONE_PROCESS = """
import accel_train
from accel_train import TrainConfig

OPTIONS = {"data": "digits", "model": "mlp", "limit": 256, "device": "cpu", "threads": 1, "report": False}
accel_train.train(TrainConfig(**OPTIONS, epochs=2, output="one", tracker=("csv",)))
"""
TWO_PROCESSES = """
from accelerate import notebook_launcher

def work():
    for event in accel_train.train(TrainConfig(**OPTIONS, epochs=2, output="two", batch_size=16)):
        pass

notebook_launcher(work, num_processes=2, use_port="{port}")
"""
RESUMED = """
run = accel_train.train(TrainConfig(**OPTIONS, epochs=3, output="one"))
print([event.epochs for event in run if event.kind == "end"])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notebook")


@pytest.fixture(scope="module")
def cells(folder: Path) -> list[Any]:
    """Return the cells of a notebook after a kernel has executed them."""
    import nbclient
    import nbformat

    book = nbformat.v4.new_notebook()
    sources = (ONE_PROCESS, TWO_PROCESSES.format(port=free_port()), RESUMED)
    book.cells = [nbformat.v4.new_code_cell(source) for source in sources]
    place = {"metadata": {"path": str(folder)}}
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith(("PYTEST_", "RANK", "WORLD_SIZE")):
                patch.delenv(name)
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        nbclient.NotebookClient(book, timeout=250, kernel_name="python3", resources=place).execute()
    return list(book.cells)


def printed(cell: Any) -> str:
    return "".join(output.text for output in cell.outputs if output.get("name") == "stdout")


def test_run_is_shown_in_one_output_that_grows(cells: list[Any], folder: Path) -> None:
    (output,) = [output for output in cells[0].outputs if output.output_type == "display_data"]
    text, page = output.data["text/plain"], output.data["text/html"]
    assert text.startswith("run            one\n")
    accuracies = [f"{record['val_accuracy']:.4f}" for record in read_metrics(folder / "one", "epoch")]
    assert len(accuracies) == 3  # with the epoch of the last cell
    assert all(f">{accuracy}</td>" in page and accuracy in text for accuracy in accuracies[:2])
    assert "\nended          all epochs done\n" in text
    assert printed(cells[0]) == ""


def test_tracker_follows_a_run_in_a_notebook(cells: list[Any], folder: Path) -> None:
    assert "\nend,," in (folder / "one/metrics.csv").read_text()


def test_notebook_launcher_starts_a_run_of_two_processes(cells: list[Any], folder: Path) -> None:
    (started,) = read_metrics(folder / "two", "run")
    assert started["world_size"] == 2
    lines = printed(cells[1])
    assert "\nrun            two\n" in lines
    assert "\nepoch 2/2  train loss " in lines
    assert "\nended          all epochs done\n" in lines


def test_run_is_continued_by_another_cell(cells: list[Any]) -> None:
    assert printed(cells[2]) == "[3]\n"
    (output,) = [output for output in cells[2].outputs if output.output_type == "display_data"]
    assert "resumed at epoch 3 of 3" in output.data["text/plain"]
