"""What a turn of each tool is given on its command line, and how it tells its result."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_MARK = "result "


class Turn(NamedTuple):
    """What is trained."""

    data: Path
    """A folder with the splits train and val."""
    epochs: int
    size: int
    """Pixels of the images."""
    seed: int


def asked() -> Turn:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    for name in Turn._fields[1:]:
        parser.add_argument(f"--{name}", type=int, required=True)
    return Turn(**vars(parser.parse_args()))


def words(turn: Turn) -> list[str]:
    """Return the command line of a turn."""
    return [str(turn.data), *(word for name in Turn._fields[1:] for word in (f"--{name}", str(getattr(turn, name))))]


def tell(accuracies: Sequence[float]) -> None:
    """Print the validation accuracies of the epochs, 0 to 1."""
    print(_MARK + json.dumps([round(each, 4) for each in accuracies]))


def told(output: str) -> list[float]:
    """Return what a turn has told.

    Raises:
        ValueError: it has told nothing.
    """
    for line in reversed(output.splitlines()):
        if line.startswith(_MARK):
            accuracies: list[float] = json.loads(line.removeprefix(_MARK))
            return accuracies
    raise ValueError(f"no result in the output: {output[-2000:]}")
