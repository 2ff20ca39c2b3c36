"""The table of a profile fits on a screen, and names the slowest rank."""

import pytest

from accel_train.events import PhaseTimes, Profiled
from accel_train.loggers.profile_table import profile_lines

FAST = PhaseTimes(data_wait=0.2, forward=3.0, backward=6.0, optimizer=0.5, communication=8.0, other=0.3)
SLOW = PhaseTimes(data_wait=9.0, forward=3.0, backward=5.5, optimizer=0.5, communication=0.0, other=0.0)


def profile(*ranks: PhaseTimes) -> Profiled:
    slowest = max(range(len(ranks)), key=lambda rank: ranks[rank].own)
    return Profiled(11, 20, ranks, slowest, "runs/digits_cnn_001/profile")


def test_each_rank_has_a_row_and_the_slowest_is_named() -> None:
    lines = profile_lines(profile(FAST, SLOW))
    assert lines[0].startswith("profile of updates 11 to 20: ")
    assert " ".join(lines[2].split()) == "0 0.20 1 % 3.00 17 % 6.00 33 % 0.50 3 % 8.00 44 % 0.30 2 % 18.00"
    assert lines[3].split()[:4] == ["1", "9.00", "50", "%"]
    assert lines[4] == "slowest: rank 1, 18.00 ms without comm., 80 % above the fastest of 2 ranks"


def test_single_rank_is_not_compared() -> None:
    assert not any("slowest" in line for line in profile_lines(profile(FAST)))


@pytest.mark.parametrize("ranks", [1, 2, 8, 512])
def test_table_fits_on_a_screen(ranks: int) -> None:
    long = PhaseTimes(*(12_345.0,) * 6)
    lines = profile_lines(profile(*(long,) * ranks))
    assert max(map(len, lines[1:-1])) <= 80
    assert len(lines) < 24


def test_only_the_slowest_of_many_ranks_are_shown() -> None:
    lines = profile_lines(profile(*(FAST,) * 30, SLOW, *(FAST,) * 30))
    assert "  30  9.00 50 %" in "\n".join(lines)
    assert "the 8 slowest of 61 ranks" in lines
