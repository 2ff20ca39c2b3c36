"""Importing runs without garbage collections, and a process ends without the interpreter's shutdown."""

import atexit
import gc
import os
from collections.abc import Iterator

import pytest

from accel_train.system.process import exit_at_once, without_gc


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


def test_exit_at_once_skips_the_interpreters_shutdown() -> None:
    child = os.fork()
    if child == 0:
        atexit.register(os._exit, 1)
        exit_at_once(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
