"""Marks cases of parametrized tests by the target that runs them: `make test`, `make test-all`, `make chaos`."""

from collections.abc import Iterable, Sequence

import pytest
import torch

Case = tuple[object, ...]


def slow(*values: object) -> object:
    """Return a case that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def chaos(*values: object) -> object:
    """Return a case that only `make chaos` runs."""
    return pytest.param(*values, marks=pytest.mark.chaos)


def by_target(cases: Iterable[Case], *, quick: Sequence[Case], more: Sequence[Case] = ()) -> list[object]:
    """Mark cases: `quick` ones are run always, `more` are slow, and all others chaos."""
    return [case if case in quick else slow(*case) if case in more else chaos(*case) for case in cases]


def in_turn(cases: Sequence[Case], *, times: int, quick: int, more: int = 0) -> list[object]:
    """Repeat cases in turn; the first `quick` are run always, `more` are slow, and all others chaos."""
    repeated = [cases[i % len(cases)] for i in range(times)]
    return [
        *repeated[:quick],
        *(slow(*case) for case in repeated[quick : quick + more]),
        *(chaos(*case) for case in repeated[quick + more :]),
    ]


def needs(gpus: int) -> pytest.MarkDecorator:
    """Return a mark that skips a test where GPUs are missing, with their number."""
    missing = gpus - torch.cuda.device_count()
    return pytest.mark.skipif(missing > 0, reason=f"{missing} of the {gpus} GPUs that it needs are missing")
