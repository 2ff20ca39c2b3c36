"""Fixtures that all tests share."""

import os
from pathlib import Path

import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is loaded: two threads of two workers slow one another down

from helpers.runner import Runner


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
