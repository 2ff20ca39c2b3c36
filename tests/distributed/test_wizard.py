"""The file that `accelerate config` writes starts what was answered."""

import sys
from pathlib import Path

import pexpect
import pytest
from helpers.marks import slow
from helpers.runner import Runner, read_metrics

NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}
SMALL = ("--epochs", "1", "--limit", "64", "--batch-size", "16", "--model", "mlp")
SINGLE, MULTI_CPU, MULTI_GPU = 0, 1, 4
"""Rows of the wizard's menu of machines."""

MENU = r"([^\r\n]*\?)\s+Please select[^\r]*enter\s.*\x1b\[\?25l"  # it ends by hiding the cursor
FIELD = r"([^\r\n]*\?[^\r\n]*): ?$"


def answer_wizard(file: Path, machine: int, answers: dict[str, str]) -> None:
    """Let the wizard write a file; a question that contains a key gets its answer, others the default."""
    words = ["-m", "accelerate.commands.accelerate_cli", "config", "--config_file", str(file)]
    wizard = pexpect.spawn(sys.executable, words, encoding="utf-8", timeout=60, dimensions=(50, 200))
    left = {"type of machine": str(machine), **answers}
    try:
        while wizard.expect([MENU, FIELD, "configuration saved at"]) < 2:
            key = next((key for key in left if key in wizard.match[1]), "")
            wizard.send(f"{left.pop(key, '')}\r")
        wizard.expect(pexpect.EOF)
    finally:
        wizard.close(force=True)
    assert wizard.exitstatus == 0
    assert not left, "never asked"


# Python 3.12 warns of any fork next to a thread; the child runs another program at once.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.mark.parametrize(
    ("machine", "answers", "flags", "obtained"),
    [
        slow(SINGLE, {"on CPU only": "yes"}, (), (1, "auto", None, "single process")),
        (MULTI_CPU, {"How many processes": "2"}, (), (2, "auto", "gloo", "DDP")),
        slow(MULTI_GPU, {"How many GPU": "2"}, ("--device", "cpu"), (2, "cpu", "gloo", "DDP")),
    ],
    ids=["one CPU process", "multi-CPU", "multi-GPU on CPUs"],
)
def test_config_of_the_wizard_starts_what_was_answered(
    run: Runner,
    machine: int,
    answers: dict[str, str],
    flags: tuple[str, ...],
    obtained: tuple[int, str, str | None, str],
) -> None:
    answer_wizard(run.folder / "wizard.yaml", machine, answers)
    words = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", "wizard.yaml", "-m", "accel_train"]
    ended = run.program([*words, "train", *SMALL, *flags, "--output", "out"], **NO_GPUS)
    assert ended.code == 0, ended.err
    (record,) = read_metrics(run.folder / "out", "run")
    assert tuple(record[name] for name in ("world_size", "device_asked", "backend", "strategy")) == obtained
    assert (record["device"], record["precision"]) == ("cpu", "fp32")
