"""Data sources, one file each; this package exports what a user's own source needs.

The names are imported on first use, so that the command line can read files here before torch is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel_train.data.sources.base import Source, View
    from accel_train.data.sources.memory import MemorySource

__all__ = ["MemorySource", "Source", "View"]

_MODULES = {"MemorySource": "memory", "Source": "base", "View": "base"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
