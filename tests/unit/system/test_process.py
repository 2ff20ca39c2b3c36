"""Imports are quick because Python does not look for garbage among what they make, and does so afterwards."""

import gc
from collections.abc import Iterator

import pytest

from accel_train.system.process import no_garbage


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_garbage_is_not_looked_for_meanwhile_and_what_was_made_is_kept_apart() -> None:
    collections = [generation["collections"] for generation in gc.get_stats()]
    with no_garbage():
        made = [[number] for number in range(100_000)]
        assert [generation["collections"] for generation in gc.get_stats()] == collections
    assert gc.get_freeze_count() >= len(made)
    assert gc.isenabled()


def test_garbage_is_looked_for_again_after_an_error() -> None:
    with pytest.raises(ImportError), no_garbage():
        import there_is_no_such_module  # noqa: F401
    assert gc.isenabled()
