"""Importing runs without garbage collections; OpenMP threads spin for a limited time."""

import gc
import os
from collections.abc import Iterator

import pytest

from accel_train.system.process import limit_spinning, without_gc


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


def test_openmp_threads_spin_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    limit_spinning()
    assert os.environ["GOMP_SPINCOUNT"] == "3000"


@pytest.mark.parametrize(("name", "value"), [("GOMP_SPINCOUNT", "0"), ("OMP_WAIT_POLICY", "active")])
def test_choice_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    for each in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, value)
    before = dict(os.environ)
    limit_spinning()
    assert dict(os.environ) == before
