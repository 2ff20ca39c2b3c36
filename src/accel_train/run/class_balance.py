"""Balances classes of different sizes, as --balance says: by weights of the loss, or by the order of the images."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from accel_train.config.options import ResolvedConfig
from accel_train.data.balanced_draws import BalancedDraws
from accel_train.data.contents import split_contents
from accel_train.data.sources.base import Source
from accel_train.data.sources.labels import labels_of
from accel_train.errors import UserError, shown

_UNEVEN = 10
"""Images of the largest class per image of the smallest, from which a run without --balance is noted."""


def balanced_draws(config: ResolvedConfig, train: Source) -> BalancedDraws | None:
    """Return what draws the images of an epoch, if --balance sampling is asked for."""
    return BalancedDraws(config.seed, _labels(config, train)) if config.balance == "sampling" else None


def class_weights(config: ResolvedConfig, train: Source, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    """Return the weight of each class in the loss, if --balance weights is asked for."""
    if config.balance != "weights":
        return None
    return torch.tensor(_weights(_counts(config, train)), dtype=dtype, device=device)


def balance_notes(config: ResolvedConfig, train: Source) -> tuple[str, ...]:
    """Return what --balance does, or a note that classes differ widely in size.

    Raises:
        UserError: a user's own source does not give the labels that --balance needs.
    """
    if config.balance != "none":
        describe = {"weights": _describe_weights, "sampling": _describe_sampling}[config.balance]
        return (f"--balance {config.balance}: {describe(config, train, _counts(config, train))}",)
    counts = split_contents(train).counts
    if counts is None or max(counts) < _UNEVEN * min(counts):
        return ()
    smallest, largest = _extremes(train, counts, least=0)
    return (
        f"classes differ in size, from {smallest} to {largest} training images: accuracy favours large classes, "
        "balanced accuracy does not; try --balance sampling or --balance weights",
    )


def _describe_weights(config: ResolvedConfig, train: Source, counts: Sequence[int]) -> str:
    smallest, largest = _extremes(train, counts)
    weights = [weight for weight in _weights(counts) if weight]
    return f"the loss of an image of {smallest} counts {max(weights):.3g} ×, of {largest} {min(weights):.3g} ×"


def _describe_sampling(config: ResolvedConfig, train: Source, counts: Sequence[int]) -> str:
    smallest, largest = _extremes(train, counts)
    present = [count for count in counts if count]
    draws = -(-len(train) // config.repeated_augmentation)
    of_class = draws / len(present)
    different = sum(min(count, (draws + number) // len(present)) for number, count in enumerate(present))
    return (
        f"an epoch draws {draws:,} images, {of_class:,.0f} of each class and {different:,} different ones: each image "
        f"of {smallest} {of_class / min(present):.3g} ×, of {largest} {of_class / max(present):.3g} ×"
    )


def _extremes(train: Source, counts: Sequence[int], least: int = 1) -> tuple[str, str]:
    """Return the smallest class that has at least `least` images, and the largest, each with its number of images."""
    sizes = [(count, str(name)) for name, count in zip(train.classes, counts, strict=True) if count >= least]
    smallest, largest = (f"{shown(name)} ({count:,})" for count, name in (min(sizes), max(sizes)))
    return smallest, largest


def _weights(counts: Sequence[int]) -> list[float]:
    """Return weights that make the sums of all classes equal, with a mean of 1 over the images."""
    present = sum(count > 0 for count in counts)
    return [sum(counts) / (present * count) if count else 0.0 for count in counts]


def _counts(config: ResolvedConfig, train: Source) -> list[int]:
    counts: list[int] = np.bincount(_labels(config, train), minlength=len(train.classes)).tolist()
    return counts


def _labels(config: ResolvedConfig, train: Source) -> NDArray[np.int64]:
    labels_N = labels_of(train)
    if labels_N is None:
        raise UserError(
            f"--balance {config.balance} needs the label of each training image, which {config.data} does not give",
            "give the training data `labels`, a list of whole numbers",
        )
    return labels_N
