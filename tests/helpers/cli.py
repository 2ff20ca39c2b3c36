"""Small pictures for the tests of the command line, and the program run inside the test process."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from accel_train.cli import app
from accel_train.system.signals import StopSignals
from helpers.runner import Ended

COLOURS = {"a": (200, 40, 40), "b": (40, 200, 40), "c": (40, 40, 200)}
"""Colour of a class by the first letter of its name; other classes are grey."""

Call = Callable[..., Ended]


def write_pictures(root: Path, counts: dict[str, int], size: int = 32, shade: int = 0) -> Path:
    """Write `counts[name]` plain PNGs to each class folder; a class has its colour, a picture its shade."""
    for name, count in counts.items():
        folder = root / name
        folder.mkdir(parents=True)
        base = COLOURS.get(folder.name[0], (90, 90, 90))
        for i in range(count):
            Image.new("RGB", (size, size), tuple(c + shade + 5 * i for c in base)).save(folder / f"{i}.png")
    return root


def assert_refused(ended: Ended, *words: str) -> None:
    """Check that the output is one error line and one hint line, and that they contain these words.

    A run that was found to be wrong only after the imports has its first line, too.
    """
    lines = ended.err.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"], ended.err
    assert all(line.partition(": ")[2].strip() for line in lines), ended.err
    assert all(line.startswith("accel_train ") for line in ended.out.splitlines()), ended.out
    assert ended.out.count("\n") <= 1, ended.out
    for word in words:
        assert word in ended.err


def in_process(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs a command in this process, because a new one takes seconds to load torch.

    Only for commands that do not train: training changes the logging of its process.
    """
    from accelerate.state import AcceleratorState, GradientState

    monkeypatch.chdir(folder)
    for variable in ("RANK", "WORLD_SIZE", "MASTER_PORT", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(variable, raising=False)

    def call(*arguments: str | Path, **environment: str) -> Ended:
        capsys.readouterr()
        with monkeypatch.context() as changed:
            changed.setattr(sys, "argv", ["accel_train", *map(str, arguments)])
            for name, value in environment.items():
                changed.setenv(name, value)
            try:
                code = app._run(StopSignals())
            finally:
                AcceleratorState._reset_state(reset_partial_state=True)
                GradientState._reset_state()
        return Ended(code, *capsys.readouterr())

    return call
