"""A run imports no optional library that it does not use: some take a second and much memory."""

from helpers.runner import Runner

MODEL = """
import sys
from pathlib import Path
from torch import nn

class Net(nn.Sequential):
    def forward(self, images):
        imported = {"datasets", "pandas", "pyarrow", "sklearn", "timm"} & sys.modules.keys()
        Path("imported").write_text(" ".join(sorted(imported)) or "none")
        return super().forward(images)

def net(classes):
    return Net(nn.Flatten(), nn.Linear(64, classes))
"""


def test_two_processes_import_no_library_that_the_run_does_not_use(run: Runner) -> None:
    (run.folder / "mine.py").write_text(MODEL)
    words = ("--data", "synthetic:64,1,8,8,2", "--model", "mine:net", "--epochs", "1", "--batch-size", "8")
    ended = run("train", *words, "--output", "run", "--device", "cpu", processes=2)
    assert ended.code == 0, ended.err
    assert (run.folder / "imported").read_text() == "none"
