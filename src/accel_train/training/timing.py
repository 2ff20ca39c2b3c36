"""Where the time of a run goes."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

T = TypeVar("T")

_NOTHING = nullcontext()


def unmarked(phase: str) -> AbstractContextManager[Any]:
    """Mark nothing."""
    return _NOTHING


class Meter:
    """Seconds of training, and those of them in which the next batch was waited for.

    Validation is apart. The speed leaves out the first update, which pays for what is made once.
    """

    def __init__(self) -> None:
        self.mark: Callable[[str], AbstractContextManager[Any]] = unmarked
        """Makes the context in which the loop is in a phase; a profile replaces it for as long as it lasts."""
        self.seconds = 0.0
        self.waited = 0.0
        self._images = 0
        self.seconds_to_first_update = 0.0
        self._left_out = 0.0
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
                with self.mark("data wait"):
                    batch = next(iterator)
            except StopIteration:
                return
            self.waited += time.perf_counter() - asked
            yield batch

    def count(self, images: int) -> None:
        """Note that one update with this many images is done."""
        if not self.seconds_to_first_update:
            self.seconds_to_first_update = self._so_far()
        else:
            self._images += images

    @contextmanager
    def leaving_out(self) -> Iterator[None]:
        """Leave a span of training, which is slow for reasons of its own, out of the speed."""
        images, began = self._images, self._so_far()
        yield
        self._images = images
        self._left_out += self._so_far() - began

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
        seconds = self.seconds - self.seconds_to_first_update - self._left_out
        return self._images / seconds if self._images else 0.0

    @property
    def wait_share(self) -> float:
        """Share of the training time spent waiting for batches."""
        return self.waited / self.seconds if self.seconds else 0.0

    def _so_far(self) -> float:
        """Return the seconds of training in the midst of it."""
        return self.seconds + time.perf_counter() - self._started
