"""Checks recorded values against recomputed ones, to the last bit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from accel_train.events import Progress
from accel_train.history.comparison import QUANTITIES, same_number

WEIGHTS = "weights"


@dataclass(frozen=True)
class Check:
    """A recorded value beside the recomputed one."""

    update: int
    quantity: str
    recorded: float | str
    replayed: float | str
    where: str = ""
    """What recorded it, if that is not the record of the update."""

    @property
    def agrees(self) -> bool:
        """Whether both are equal to the last bit; a record does not tell infinities from NaN."""
        both_broken = all(isinstance(one, float) and not math.isfinite(one) for one in (self.recorded, self.replayed))
        return both_broken or same_number(self.recorded, self.replayed)


def progress_checks(recorded: Progress, replayed: Progress, *, same_processes: bool) -> Iterator[Check]:
    """Yield what was recorded of an update beside what was recomputed.

    With another number of processes, the first has other images, so that neither they nor their loss are compared.
    """
    for quantity, name in QUANTITIES.items():
        if same_processes or not name.startswith("local_"):
            yield Check(recorded.update, quantity, getattr(recorded, name), getattr(replayed, name))


def differing(checks: Sequence[Check]) -> Check | None:
    """Return the first check that does not agree; of one update, they stand in the order of cause and effect."""
    return next((check for check in sorted(checks, key=lambda check: check.update) if not check.agrees), None)
