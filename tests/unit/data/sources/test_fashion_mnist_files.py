"""The largest file can be read ahead while torch is imported."""

import sys
from importlib import import_module
from pathlib import Path

import pytest

from accel_train.data.sources import fashion_mnist_files as files


def test_does_not_import_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does its package: the command line imports it before torch."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "accel_train"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]  # makes its import fail
    import_module(files.__name__)


def test_nothing_is_read_ahead_without_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_DEBIAN", tmp_path)
    files.read_ahead(tmp_path / "none")
    assert not files._started
