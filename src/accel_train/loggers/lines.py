"""Formats events as lines of text."""

import math
import shlex
from pathlib import Path

from accel_train.events import (
    EpochByRank,
    EpochEnd,
    RankEpoch,
    RanksStarted,
    RankStart,
    Resumed,
    RunStarted,
    Saved,
    Stopped,
)
from accel_train.loggers.text import accuracy, duration, learning_rate, loss, quantity, speed

GAP = "  "
"""Between the parts of a line."""
_HASH_DIGITS = 8
_UNEVEN = 2
"""Images of the largest class per image of the smallest."""


def rank_prefix(rank: int, world_size: int, device: str) -> str:
    """Return what a line of one process starts with."""
    return f"[rank {rank}/{world_size} {device}] "


def resumed_line(started: RunStarted, event: Resumed) -> str:
    """Return where a run resumes."""
    return f"resumed at epoch {event.epoch:,} of {started.plan.epochs:,}, update {event.update:,}"


def saved_line(event: Saved) -> str:
    """Return which checkpoint is committed."""
    return f"saved checkpoint update {event.update}"


def stopped_line(started: RunStarted, event: Stopped, command: str | None) -> str:
    """Return why a run stopped, and how to resume it; `command` started it, None if a launcher did."""
    stopped = f"stopped by {event.reason} after update {event.update:,} (saved)"
    folder = shlex.quote(started.run_folder)
    # Without them the same command would start another run, or go back to where this one began.
    resumes_it = started.config["resume"] == "auto" or Path(started.config["resume"]) == Path(started.run_folder)
    options = "" if resumes_it else f"--resume {folder} --output {folder}"
    if command is None:
        return f"{stopped}; run the same command again {f'with {options} ' * bool(options)}to resume"
    return f"{stopped}; to resume: {' '.join(filter(None, [command, options]))}"


def shows_balanced(started: RunStarted) -> bool:
    """Return whether to show balanced accuracy: with --balance, or if the validation classes differ in size."""
    counts = started.data.contents["splits"]["val"]["counts"]
    return started.config["balance"] != "none" or bool(counts and max(counts) >= _UNEVEN * min(counts))


def epoch_line(started: RunStarted, event: EpochEnd) -> str:
    """Return the results of an epoch over all processes."""
    return GAP.join(
        (
            f"epoch {event.epoch}/{started.plan.epochs}",
            f"train loss {loss(event.train_loss)}",
            f"val loss {loss(event.val_loss)}",
            f"val accuracy {accuracy(event.val_accuracy)}",
            *([f"balanced {accuracy(event.val_balanced_accuracy)}"] if shows_balanced(started) else []),
            f"lr {learning_rate(event.lr)}",
            f"{speed(event.images_per_second)} images/s",
            duration(event.seconds),
            *([f"ema {accuracy(event.ema_val_accuracy)}"] if event.ema_val_accuracy is not None else []),
            *(["best"] if event.best else []),
        )
    )


def rank_start_text(started: RunStarted, event: RanksStarted, rank: int) -> str:
    """Return where a process runs."""
    own = event.ranks[rank]
    place = f"host {own.host}, process {own.pid}, {quantity(own.threads, 'thread')}"
    return f"{started.hardware.backend}, {place}" if started.hardware.backend else place


def rank_epoch_text(started: RunStarted, event: EpochByRank, rank: int, width: float = math.inf) -> str:
    """Return what a process has trained of an epoch, without its least important parts if they exceed a width."""
    own = event.ranks[rank]
    epoch = f"epoch {event.epoch}/{started.plan.epochs}"
    weights = f"{'shard' if own.sharded else 'weights'} {own.weights[:_HASH_DIGITS]}"
    mean = f"loss {loss(own.loss)}"
    over_images = f"{mean} over {quantity(own.images, 'image')}"
    trained = [GAP.join((over_images, f"{speed(own.images_per_second)} images/s")), over_images, mean]
    if not own.images:
        trained = ["no images trained since the run resumed", "no images"]
    lines = [GAP.join((epoch, text, weights)) for text in trained]
    return next((line for line in lines if len(line) <= width), lines[-1])


def rank_lines(started: RunStarted, event: RanksStarted | EpochByRank, width: float = math.inf) -> list[str]:
    """Return a line per process of several; none if they are not wanted."""
    ranks: tuple[RankStart | RankEpoch, ...] = event.ranks
    count = len(ranks)
    if count == 1 or started.config["rank_lines"] == "none":
        return []
    prefixes = [rank_prefix(rank, count, own.device) for rank, own in enumerate(ranks)]
    if isinstance(event, RanksStarted):
        return [prefix + rank_start_text(started, event, rank) for rank, prefix in enumerate(prefixes)]
    return [prefix + rank_epoch_text(started, event, rank, width - len(prefix)) for rank, prefix in enumerate(prefixes)]
