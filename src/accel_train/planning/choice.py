"""Chooses the strategy of a run, and says why in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

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


def choose(
    found: Sequence[Estimate], batch_size: int, gpu_memory: float | None, asked: str, cluster: Cluster
) -> Choice:
    """Return the first way that fits: first without activation checkpointing, which costs a third more time.

    `asked` is a value of ``--strategy``; `gpu_memory` is in GB.
    """
    possible = [each for each in found if each.devices and asked in ("auto", each.way.strategy)]
    ordered = sorted(possible, key=lambda each: (each.way.checkpointing, _ORDER.index(each.way.strategy)))
    if gpu_memory is None:
        first = ordered[0] if ordered else None
        return Choice(first, _unlimited(first, batch_size, asked))
    limit = USABLE * gpu_memory * 1e9
    fitting = [each for each in ordered if each.fits(batch_size, limit)]
    if not fitting:
        return Choice(None, _too_small(ordered, batch_size, gpu_memory, limit))
    first = fitting[0]
    reason = f"it takes {gigabytes(first.peak(batch_size))} of {gpu_memory:g} GB"
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


def _unlimited(first: Estimate | None, batch_size: int, asked: str) -> str:
    if first is None:
        return f"--strategy {asked} cannot train this model on these devices"
    peak = gigabytes(first.peak(batch_size))
    return f"it takes {peak} per device; add --gpu-memory to see what fits"


def _too_small(ordered: Sequence[Estimate], batch_size: int, gpu_memory: float, limit: float) -> str:
    if not ordered:
        return "no strategy can train this model on these devices"
    best = max(ordered, key=lambda each: each.largest_batch(limit))
    needs = f"--batch-size {batch_size} needs {gigabytes(min(each.peak(batch_size) for each in ordered))}"
    if size := best.largest_batch(limit):
        return f"{needs}, more than {100 * USABLE:.0f} % of {gpu_memory:g} GB: at most {size} with {best.way.name}"
    return f"{needs} at least, and not even one image fits into {gpu_memory:g} GB: use more or larger GPUs"


def gigabytes(size: float) -> str:
    """Return ``1.61 GB`` or ``102 MB``."""
    return f"{size / 1e9:.3g} GB" if size >= 1e9 else f"{size / 1e6:.3g} MB"
