"""Importing runs without garbage collections."""

import gc
from collections.abc import Iterator

import pytest

from accel_train.system.process import without_gc


@pytest.fixture(autouse=True)
def unfrozen() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_gc_is_disabled_inside_and_new_objects_are_frozen() -> None:
    collections = [generation["collections"] for generation in gc.get_stats()]
    with without_gc():
        made = [[number] for number in range(100_000)]
        assert [generation["collections"] for generation in gc.get_stats()] == collections
    assert gc.get_freeze_count() >= len(made)
    assert gc.isenabled()


def test_gc_is_enabled_again_after_an_error() -> None:
    with pytest.raises(ImportError), without_gc():
        import there_is_no_such_module  # noqa: F401
    assert gc.isenabled()
