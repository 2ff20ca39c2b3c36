"""Fixtures that all tests share."""

from pathlib import Path

import pytest
from helpers.runner import Runner


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
