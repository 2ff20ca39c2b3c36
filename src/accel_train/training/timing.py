"""Measures throughput, and the time that the loop spends waiting."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")

_NO_SPAN = nullcontext()


def no_span(phase: str) -> AbstractContextManager[Any]:
    """Return a context that records nothing."""
    return _NO_SPAN


class Timing:
    """Seconds of training, excluding validation, and how many of them were spent waiting for batches.

    Throughput excludes the first update, which includes one-time costs.
    """

    def __init__(self) -> None:
        self.span: Callable[[str], AbstractContextManager[Any]] = no_span
        """Returns the context of a phase of the loop; the profiler replaces it while it records."""
        self.seconds = 0.0
        self.waited = 0.0
        self._images = 0
        self.seconds_to_first_update = 0.0
        self._excluded = 0.0
        self._started = 0.0
        self._created = time.perf_counter()
        self._blocked: defaultdict[str, float] = defaultdict(float)

    def start(self) -> None:
        """Start or continue to train."""
        self._started = time.perf_counter()

    def stop(self) -> float:
        """Pause training and return the seconds since :meth:`start`."""
        seconds = time.perf_counter() - self._started
        self.seconds += seconds
        return seconds

    def waiting_for(self, batches: Iterable[T]) -> Iterator[T]:
        """Iterate, adding to `waited` the time that each batch takes to arrive."""
        iterator = iter(batches)
        while True:
            asked = time.perf_counter()
            try:
                with self.span("data wait"):
                    batch = next(iterator)
            except StopIteration:
                return
            self.waited += time.perf_counter() - asked
            yield batch

    def count(self, images: int) -> None:
        """Count one update of this many images."""
        if not self.seconds_to_first_update:
            self.seconds_to_first_update = self._so_far()
        else:
            self._images += images

    @contextmanager
    def excluded(self) -> Iterator[None]:
        """Exclude a part of training, such as profiled updates, from the throughput."""
        images, began = self._images, self._so_far()
        yield
        self._images = images
        self._excluded += self._so_far() - began

    @contextmanager
    def blocked_by(self, what: str) -> Iterator[None]:
        """Add the time in which the loop is blocked by something."""
        began = time.perf_counter()
        yield
        self._blocked[what] += time.perf_counter() - began

    def share(self, what: str) -> float:
        """Return the fraction of all time since construction in which the loop was blocked by `what`."""
        return self._blocked[what] / (time.perf_counter() - self._created)

    @property
    def images_per_second(self) -> float:
        """Images per second from the second update on; 0 if there was only one update."""
        seconds = self.seconds - self.seconds_to_first_update - self._excluded
        return self._images / seconds if self._images else 0.0

    @property
    def wait_share(self) -> float:
        """Fraction of the training time spent waiting for batches."""
        return self.waited / self.seconds if self.seconds else 0.0

    def _so_far(self) -> float:
        """Return the seconds of training, including those since :meth:`start`."""
        return self.seconds + time.perf_counter() - self._started
