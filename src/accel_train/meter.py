"""Where the time of a run goes."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Meter:
    """Seconds of training, and those of them in which the next batch was waited for.

    Validation is apart. The speed leaves out the first update, which pays for what is made once.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.waited = 0.0
        self._images = 0
        self._after_first = 0.0
        self._started = 0.0
        self._created = time.perf_counter()
        self._held_up: defaultdict[str, float] = defaultdict(float)

    def start(self) -> None:
        """Go on with training."""
        self._started = time.perf_counter()

    def stop(self) -> float:
        """Interrupt training and return the seconds since it went on."""
        seconds = time.perf_counter() - self._started
        self.seconds += seconds
        return seconds

    def waiting_for(self, batches: Iterable[T]) -> Iterator[T]:
        """Iterate, adding to `waited` what each next batch takes to come."""
        iterator = iter(batches)
        while True:
            asked = time.perf_counter()
            try:
                batch = next(iterator)
            except StopIteration:
                return
            self.waited += time.perf_counter() - asked
            yield batch

    def count(self, images: int) -> None:
        """Note that one update with this many images is done."""
        if not self._after_first:
            self._after_first = self.seconds + time.perf_counter() - self._started
        else:
            self._images += images

    @contextmanager
    def held_up_by(self, what: str) -> Iterator[None]:
        """Note for how long the loop stands still because of something."""
        began = time.perf_counter()
        yield
        self._held_up[what] += time.perf_counter() - began

    def share(self, what: str) -> float:
        """Return the share of all time since the meter was made in which the loop stood still because of `what`."""
        return self._held_up[what] / (time.perf_counter() - self._created)

    @property
    def images_per_second(self) -> float:
        """Images from the second update on, by the time they took; 0 if there was one update alone."""
        seconds = self.seconds - self._after_first
        return self._images / seconds if self._images else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the training time spent waiting for batches."""
        return self.waited / self.seconds if self.seconds else 0.0
