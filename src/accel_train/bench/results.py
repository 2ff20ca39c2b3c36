"""What a benchmark measures: one setting, and what was found."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """What is to be measured."""

    device: str
    batch_size: int
    """Images per process."""
    precision: str
    compile: bool
    processes: int
    updates: int
    """To train for."""

    @property
    def images(self) -> int:
        return self.batch_size * self.processes * self.updates

    @property
    def arithmetic(self) -> str:
        return self.precision + "+compile" * self.compile


@dataclass(frozen=True, slots=True)
class Found:
    """Of one training run, or the medians of several."""

    images_per_second: float
    """From the second update to the last, all processes."""
    peak_memory_bytes: float
    """Of all processes together, as seen twice a second; on a GPU, of the tensors of the first one."""
    seconds_to_first_update: float
    """Since the command was given."""
    data_share: float
    """Of the time of the updates that were profiled; likewise those below."""
    compute_share: float
    communication_share: float
    """Others were waited for, and nothing computed."""
    other_share: float


@dataclass(frozen=True, slots=True)
class Row:
    """What was found for a setting, or why nothing was."""

    setting: Setting
    found: Found | None
    bare_images_per_second: float | None = None
    """Of the bare loop on one batch in memory, where it was asked for."""
    ratio_to_bare: float | None = None
    """Median of those of the single rounds."""
    failure: str | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the JSON object of the row, numbers unrounded."""
        found = asdict(self.found) if self.found else {}
        ratio = {"bare_images_per_second": self.bare_images_per_second, "ratio_to_bare": self.ratio_to_bare}
        return {"kind": "bench", **asdict(self.setting), **found, **ratio, "failure": self.failure}
