"""Imports torch without searching for garbage meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage() -> Iterator[None]:
    """Import in this context what makes many objects, to be kept, so that Python never looks for garbage among them.

    Of importing torch that is a tenth of the time; later, a pause of the loop and, in forked loader workers, a copy of
    the memory that they lie in.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
