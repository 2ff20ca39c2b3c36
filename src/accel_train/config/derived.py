"""Finds the values of a run's config.yaml that followed from options which are now given another value."""

import re
from collections.abc import Collection

_DEFAULT = (
    r"default(?=$| for | with |, in )|because (?:of )?--|as for --weights |as data, model and weights |--augment "
)
"""How the origin of a default begins; a file that is named default.yaml has been chosen."""
_ORIGIN = re.compile(rf"([a-z]\w*): .*  # ((?:{_DEFAULT}).*)")
"""A value of a run's config.yaml whose origin is no choice of the user's."""
_FOLLOWED = re.compile(rf"{_DEFAULT}|--auto-micro-batch$|(?:global )?batch size ")
"""How the origin of a value begins that nobody chose."""
_THROUGH_FILE = re.compile(r", in .*")
"""The end of the origin of a default that has come from the config file of another run."""
FOLLOWERS: dict[str, tuple[str, ...]] = {
    "data": ("fit", "eval_crop"),
    "model": ("image_size", "optimizer", "lr", "max_lr"),
    "weights": ("image_size", "epochs", "crop_scale", "fit", "eval_crop", "optimizer", "lr", "max_lr"),
    "optimizer": ("lr", "lr_scaling", "max_lr", "weight_decay"),
    "lr": ("lr_scaling", "max_lr"),
    "lr_scaling": ("lr_base_batch", "max_lr"),
    "epochs": ("warmup_epochs",),
    "schedule": ("gamma",),
    "batch_size": ("epochs",),
    "accumulate": ("epochs",),
    "global_batch_size": ("batch_size", "epochs"),
    "unfreeze_at": ("freeze",),
    "fit": ("random_crop", "eval_crop"),
    "eval_crop": ("fit",),
    "random_crop": ("crop_scale", "crop_ratio"),
    "crop_scale": ("random_crop", "fit"),
    "crop_ratio": ("random_crop", "fit"),
    "augment": ("fit",),
    "rand_augment": ("trivial_augment",),
    "trivial_augment": ("rand_augment",),
}
"""By option, those whose default depends on it."""


def derived_values(text: str) -> dict[str, str]:
    """Return the fields of a config file whose values were defaults, with the origin that a run writes next to each."""
    return {match[1]: match[2] for line in text.splitlines() if (match := _ORIGIN.match(line))}


def through_file(origin: str, path: str) -> str:
    """Return the origin of a default that a run has taken from the config file of another."""
    return f"{_THROUGH_FILE.sub('', origin)}, in {path}"


def file_of(origin: str) -> str:
    """Return the file that a value comes from, whether it was a default there or not; any other origin as it is."""
    through = None if is_chosen(origin) else _THROUGH_FILE.search(origin)
    return through[0].removeprefix(", in ") if through else origin


def is_chosen(origin: str) -> bool:
    """Return whether a value with this origin was given, not the default or the result of others."""
    return _FOLLOWED.match(origin) is None


def outdated(derived: Collection[str], given: Collection[str]) -> frozenset[str]:
    """Return the fields of derived values that depend on options which are given now, directly or not."""
    found: set[str] = set()
    changed = list(given)
    while changed:
        following = {name for name in FOLLOWERS.get(changed.pop(), ()) if name in derived and name not in given}
        changed += following - found
        found |= following
    return frozenset(found)
