"""The runs that tests fork (see helpers/warm.py) equal those that users start."""

import re
from pathlib import Path

import pytest
import yaml
from helpers.faults import TINY
from helpers.runner import Ended, Runner

RUN = ("train", *TINY, "--epochs", "2", "--save-every", "5updates", "--workers", "1", "--output")

TIME = r"\d[\d.]* (?:s|min|h)(?: \d+ (?:s|min))?"
VARYING = re.compile(rf"  [\d,.–]+ images/s(?:  {TIME}(?=  |$))?|  {TIME} left$|process \d+")


def lines(ended: Ended) -> tuple[int, list[str], list[str]]:
    """Return the exit code and the lines of both streams, without the lines on progress and without times."""
    kept = [line for line in ended.out.splitlines() if not line.startswith(("update ", "speed ", "time ", "saved "))]
    return ended.code, [VARYING.sub("", line) for line in kept], ended.err.splitlines()


def written(folder: Path) -> dict[str, object]:
    config = yaml.safe_load((folder / "config.yaml").read_text())
    weights = {name: (folder / name).read_bytes() for name in ("model.safetensors", "best.safetensors", "config.json")}
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))
    return {**weights, "names": names, "config": {key: value for key, value in config.items() if key != "output"}}


@pytest.mark.parametrize("processes", [1, 2])
def test_forked_run_equals_a_started_one(run: Runner, processes: int) -> None:
    ended, folders = [], []
    for forked in (True, False):
        (parent := run.folder / f"forked_{forked}").mkdir()
        ended.append(lines(Runner(parent)(*RUN, "out", processes=processes, forked=forked)))
        folders.append(written(parent / "out"))
    assert ended[0] == ended[1]
    assert ended[0][0] == 0
    assert folders[0] == folders[1]
