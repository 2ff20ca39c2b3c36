"""The screen while a run goes: rank lines, the table and the bar, with warnings of other ranks, Ctrl-C and a resume."""

import re
import shlex
from pathlib import Path

import pytest
from helpers.marks import chaos, slow
from helpers.runner import clean_environment
from helpers.screen import Screen
from helpers.terminal import OnTerminal

SLOW = """
import os, time, warnings
import torch

class Images:
    classes = ("a", "b")
    seen = 0

    def __len__(self):
        return 64

    def __getitem__(self, i):
        self.seen += 1
        if self.seen % 16 == 0:
            time.sleep(0.1)
            if os.environ.get("RANK") == "1" and self.seen < 100:
                warnings.warn(f"odd picture, read as number {self.seen}")
        return torch.full((1, 8, 8), i, dtype=torch.uint8), i % 2

def data():
    return Images(), Images()
"""
WORDS = ("--data", "slow:data", "--model", "mlp", "--batch-size", "8", "--workers", "0", "--device", "cpu")
ROW = re.compile(r" +(\d+)/50 ")
RANK = re.compile(
    r"\[rank (\d)/(\d) cpu\] epoch (\d+)/50  "
    r"(?:loss .*|no images(?: trained since the run resumed)?)  weights ([0-9a-f]{8})"
)


def interrupted(folder: Path, columns: int, *words: str, rows: int, **environment: str) -> tuple[str, str]:
    """Run on a terminal, type Ctrl-C after some rows of the table, and return the command and what it has sent."""
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    arguments = ["train", *WORDS, "--epochs", "50", "--output", "my run", *words]
    with OnTerminal(
        ["-m", "accel_train", *arguments],
        folder=folder,
        environment=clean_environment() | {"TERM": "xterm-256color", "PYTHONPATH": str(folder)} | environment,
        columns=columns,
        forked="PYTHONIOENCODING" not in environment,
    ) as child:
        sent = ""
        for _ in range(rows):
            child.expect(r"\x1b\[2K +\d+/50 [^\n]*\n")
            sent += child.before + child.after
        child.expect("epoch")  # the bar is drawn again
        child.send("\x03")
        sent += child.before + child.after
        assert child.ends() == 130, sent + child.before
        return shlex.join(["accel_train", *arguments]), sent + child.before


def assert_intact(lines: list[str], columns: int, processes: int, rows: int) -> list[int]:
    """Check the table and the lines of the ranks on a screen, and return the epochs of the rows."""
    assert not any(glyph in line for line in lines for glyph in "━╸╺"), lines  # no bar is left
    header = next(number for number, line in enumerate(lines) if re.match(r" +epoch  ", line))
    assert sum(bool(re.match(r" +epoch  ", line)) for line in lines) == 1
    epochs = []
    for number, line in enumerate(lines):
        if row := ROW.match(line):
            epochs.append(int(row[1]))
            assert number > header
            assert line.index("/50 ") == lines[header].index("epoch") + len("epoch") - len("/50")
            own = [found for each in lines[number - 8 : number] if (found := RANK.match(each)) and found[3] == row[1]]
            assert [int(found[1]) for found in own] == list(range(processes)) * (processes > 1), lines
            assert len({found[4] for found in own}) == (processes > 1)  # one hash
    assert len(epochs) >= rows
    assert max(map(len, lines)) <= columns
    return epochs


@pytest.mark.parametrize(
    ("columns", "processes"), [(80, 2), slow(60, 1), chaos(60, 2), slow(120, 4), chaos(200, 2), chaos(200, 1)]
)
def test_interrupted_and_resumed_run_leaves_an_intact_screen(tmp_path: Path, columns: int, processes: int) -> None:
    several = ["--processes", str(processes)] * (processes > 1)
    command, sent = interrupted(tmp_path, columns, *several, rows=3)

    screen = Screen(columns, sent)
    lines = screen.lines
    epochs = assert_intact(lines, columns, processes, rows=3)
    assert epochs == list(range(1, len(epochs) + 1))
    stopped = re.fullmatch(r"stopped by SIGINT after update (\d+) \(saved\); to resume: (.*)", screen.unwrapped[-1])
    assert stopped, lines
    assert stopped[2] == command
    assert sum(line.startswith("accel_train 0") for line in lines) == 1  # the first line, once
    if processes > 1:
        started = screen.unwrapped.index(next(line for line in screen.unwrapped if line.startswith("[rank 0")))
        warned = [line for line in screen.unwrapped[started:] if "odd picture" in line]
        assert warned
        assert all(line.startswith(f"[rank 1/{processes} cpu] ") for line in warned)

    again, sent = interrupted(tmp_path, columns, *several, rows=1)
    assert again == command
    resumed = re.search(rf"resumed at epoch (\d+) of 50, update {stopped[1]}\r\n", sent)
    assert resumed
    bars = re.findall(r"epoch (\d+)/50 ", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent[resumed.end() :]))
    assert bars[0] == resumed[1]
    percent = re.search(r"(\d+) % ", sent[resumed.end() :])
    updates = 50 * (64 // (8 * processes))
    assert percent
    assert int(percent[1]) == pytest.approx(100 * int(stopped[1]) / updates, abs=1)
    assert_intact(Screen(columns, sent).lines, columns, processes, rows=1)


@pytest.fixture(params=["ascii", "no colour"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    return ascii_only if request.param == "ascii" else {"NO_COLOR": "1"}


@pytest.mark.slow
def test_plain_terminal_shows_the_same(tmp_path: Path, environment: dict[str, str]) -> None:
    _, sent = interrupted(tmp_path, 100, "--processes", "2", rows=2, **environment)
    assert_intact(Screen(100, sent).lines, 100, 2, rows=2)
    assert not re.search(r"\x1b\[(3|4|9)\d", sent) or "NO_COLOR" not in environment
    assert sent.isascii() or "LC_ALL" not in environment
