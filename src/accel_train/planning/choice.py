"""Chooses the strategy of a run, and says why in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel_train.errors import UserError
from accel_train.planning.estimate import Estimate
from accel_train.planning.traffic import Cluster

USABLE = 0.9
"""Share of a GPU's memory that tensors may take; CUDA, NCCL, cuDNN's workspace and fragmentation need the rest."""
_ORDER = ("ddp", "hsdp", "fsdp2", "pipeline")
"""The less they send, the earlier; a pipeline is idle for a part of the time."""


@dataclass(frozen=True)
class Choice:
    """The strategy that a run would take."""

    estimate: Estimate | None
    """None if no way fits."""
    reason: str
    largest_batch: int = 0
    """If no way fits: the largest batch size that would."""


def choose(
    found: Sequence[Estimate], batch_size: int, gpu_memory: float | None, asked: str, cluster: Cluster
) -> Choice:
    """Return the first way that fits: first without activation checkpointing, which costs a third more time.

    `asked` is a value of ``--strategy``; `gpu_memory` is in GB.

    Raises:
        UserError: what the strategy takes is unknown.
    """
    wanted = [each for each in found if asked in ("auto", each.way.strategy)]
    possible = [each for each in wanted if each.devices]
    if not possible:
        raise UserError(f"--strategy {asked} cannot be planned: {wanted[0].problem}", "leave it out: others can")
    ordered = sorted(possible, key=lambda each: (each.way.checkpointing, _ORDER.index(each.way.strategy)))
    if gpu_memory is None:
        peak = gigabytes(ordered[0].peak(batch_size))
        return Choice(ordered[0], f"it takes {peak} per device; add --gpu-memory to see what fits")
    limit = USABLE * gpu_memory * 1e9
    fitting = [each for each in ordered if each.fits(batch_size, limit)]
    if not fitting:
        return _too_small(ordered, batch_size, gpu_memory, limit)
    first = fitting[0]
    reason = f"it takes {gigabytes(first.peak(batch_size))} of {rounded(gpu_memory)} GB"
    if asked != "auto":
        return Choice(first, f"{reason}, and was asked for")
    if before := ordered[: ordered.index(first)]:
        reason += f"; {before[-1].way.name} would take {gigabytes(before[-1].peak(batch_size))}"
    elif other := next((each for each in ordered if each.way.strategy == "fsdp2"), None):
        ours, theirs = (gigabytes(each.traffic.by_device) for each in (first, other))
        reason += f" and sends {ours} per update, fsdp2 {theirs}"
    elif cluster.devices == 1:
        reason += "; there is one device"
    return Choice(first, reason)


def _too_small(ordered: Sequence[Estimate], batch_size: int, gpu_memory: float, limit: float) -> Choice:
    best = max(ordered, key=lambda each: each.largest_batch(limit))
    needs = f"--batch-size {batch_size} needs {gigabytes(min(each.peak(batch_size) for each in ordered))}"
    memory = f"{rounded(gpu_memory)} GB"
    if size := best.largest_batch(limit):
        reason = f"{needs}, more than {100 * USABLE:.0f} % of {memory}: at most {size} with {best.way.name}"
        return Choice(None, reason, size)
    return Choice(None, f"{needs} at least, and not even one image fits into {memory}: use more or larger GPUs")


def gigabytes(size: float) -> str:
    """Return ``1.61 GB``, ``102 MB`` or ``3.2 KB``."""
    unit, name = next(((u, n) for u, n in ((1e9, "GB"), (1e6, "MB")) if size >= u), (1e3, "KB"))
    return f"{rounded(size / unit)} {name}"


def rounded(value: float) -> str:
    """Return three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
