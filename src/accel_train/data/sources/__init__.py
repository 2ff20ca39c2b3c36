"""Data sources, one file each."""

from accel_train.data.sources.base import Source

__all__ = ["Source"]
