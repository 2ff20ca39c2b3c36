"""The results of a benchmark: a setting, and its measurement or failure."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting to measure."""

    device: str
    batch_size: int
    """Images per process."""
    precision: str
    compile: bool
    processes: int
    updates: int
    """Updates to train for."""

    @property
    def images(self) -> int:
        return self.batch_size * self.processes * self.updates

    @property
    def precision_label(self) -> str:
        """The precision, and whether the model is compiled."""
        return self.precision + "+compile" * self.compile


@dataclass(frozen=True, slots=True)
class Measurement:
    """One training run, or the medians of several."""

    images_per_second: float
    """From the second update to the last, all processes."""
    peak_memory_bytes: float
    """Of all processes together, sampled twice a second; on a GPU, tensors of the first process."""
    seconds_to_first_update: float
    """Since the start of the command."""
    data_share: float
    """Fraction of the time of the profiled updates; likewise below."""
    compute_share: float
    communication_share: float
    """Waiting for other processes, without overlapping computation."""
    other_share: float


@dataclass(frozen=True, slots=True)
class Row:
    """A setting with its measurement, or the reason why there is none."""

    setting: Setting
    measurement: Measurement | None
    bare_images_per_second: float | None = None
    """Of the bare loop on one batch in memory, if it was measured."""
    ratio_to_bare: float | None = None
    """Median of the ratios of the rounds."""
    failure: str | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the JSON object of the row, numbers unrounded."""
        measurement = asdict(self.measurement) if self.measurement else {}
        bare = {"bare_images_per_second": self.bare_images_per_second, "ratio_to_bare": self.ratio_to_bare}
        return {"kind": "bench", **asdict(self.setting), **measurement, **bare, "failure": self.failure}
