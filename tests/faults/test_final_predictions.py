"""What happens while a finished run writes its predictions: nothing of it loses the run."""

import os
import signal
from pathlib import Path

import pytest
from helpers.faults import started
from helpers.marks import slow
from helpers.processes import wait_until
from helpers.runner import Runner

SOURCE = """
import time
from pathlib import Path

import torch

class Images:
    classes = ("a", "b")

    def __len__(self):
        return 16

    def __getitem__(self, i):
        return torch.full((1, 8, 8), i, dtype=torch.uint8), i % 2

class Late(Images):
    def __getitem__(self, i):
        if Path("run/model.safetensors").exists():  # the run is complete
            {what}
        return super().__getitem__(i)

def data():
    return Images(), Late()
"""
WORDS = ("--data", "late:data", "--model", "mlp", "--batch-size", "4", "--epochs", "1", "--output", "run", "--report")
ON_CPU = ("--workers", "0", "--device", "cpu")


def write_source(folder: Path, what: str) -> None:
    (folder / "late.py").write_text(SOURCE.format(what=what), encoding="utf-8")


def assert_complete(folder: Path) -> None:
    assert '"kind": "end"' in (folder / "run/metrics.jsonl").read_text().splitlines()[-1]
    assert (folder / "run/model.safetensors").exists()
    assert not (folder / "run/predictions.csv").exists()


@pytest.mark.parametrize("processes", [2, slow(1)])
def test_images_that_can_no_longer_be_read_are_a_note(run: Runner, processes: int) -> None:
    write_source(run.folder, "raise OSError('the disk is gone')")
    ended = run("train", *WORDS, *ON_CPU, processes=processes)
    assert ended.code == 0, ended.err
    assert "note: predictions.csv was not written: " in ended.out
    assert "the disk is gone; `accel_train evaluate run --predictions run/predictions.csv` writes it\n" in ended.out
    assert_complete(run.folder)


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGTERM, 2), slow(signal.SIGINT, 1)])
def test_signal_ends_a_complete_run_at_once_as_a_success(
    number: signal.Signals, processes: int, tmp_path: Path
) -> None:
    write_source(tmp_path, "Path('waiting').touch(), time.sleep(600)")
    with started(tmp_path, *WORDS, *ON_CPU, command="train", processes=processes) as program:
        wait_until(lambda: (tmp_path / "waiting").exists() or not program.process.is_alive(), 60)
        os.kill(program.pid, number)
        assert program.wait(20) == 0, program.out + program.err
    assert program.err == f"ended by {number.name}, after the run was complete\n"
    assert_complete(tmp_path)
