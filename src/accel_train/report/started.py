"""What a run recorded at its start, checked: its file may be anybody's."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from accel_train.events import DataRecord, HardwareRecord, ModelRecord, PlanRecord, SoftwareRecord
from accel_train.system.records import checked

T = TypeVar("T")


@dataclass(frozen=True)
class Started:
    """The records of :class:`accel_train.events.RunStarted`."""

    data: DataRecord
    model: ModelRecord
    hardware: HardwareRecord
    plan: PlanRecord
    software: SoftwareRecord | None
    """None in runs of older versions."""


def read_started(record: Mapping[str, Any]) -> Started:
    """Return the parts of a record that has all of them in one.

    Raises:
        ValueError: one is missing or damaged; the message continues the name of the file.
    """
    return Started(
        data=_part(record, DataRecord),
        model=_part(record, ModelRecord),
        hardware=_part(record, HardwareRecord),
        plan=_part(record, PlanRecord),
        software=_part(record, SoftwareRecord) if "versions" in record else None,
    )


def _part(record: Mapping[str, Any], kind: type[T]) -> T:
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return checked({name: record[name] for name in names if name in record}, kind)
