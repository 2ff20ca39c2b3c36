"""A finding: what is wrong, on which processes, and how to mend it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from accel_train.errors import UserError


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong."""

    check: str
    """What was checked, such as ``open files``."""
    message: str
    fix: str
    fails: bool = True
    """False if a run works in spite of it."""
    ranks: tuple[int, ...] = ()
    """The processes that have found it; none if it is of all of them together."""

    @classmethod
    def of(cls, check: str, error: UserError) -> Self:
        """Return what an error reports."""
        return cls(check, error.message, error.hint)

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> Self:
        """Return a finding of another process from its JSON."""
        return cls(**{**record, "ranks": tuple(record["ranks"])})


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """Return each finding once, with all processes that have made it; failures first."""
    ranks: dict[Finding, set[int]] = {}
    for finding in findings:
        ranks.setdefault(replace(finding, ranks=()), set()).update(finding.ranks)
    once = [replace(finding, ranks=tuple(sorted(own))) for finding, own in ranks.items()]
    return sorted(once, key=lambda finding: not finding.fails)
