"""Whatever options are given, an error is about those: never about a default that was derived from the data."""

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest

from accel_train.config.defaults import DATA_DEFAULTS
from accel_train.config.load import make_config
from accel_train.config.lr_schedule import RULES, SCALINGS
from accel_train.config.optimizers import OPTIMIZERS
from accel_train.config.options import TrainConfig
from accel_train.config.plan import make_plan
from accel_train.config.resolve import resolve
from accel_train.errors import UserError

SIZES = (1, 2, 3, 8, 16, 24, 31, 32, 64, 96, 97, 100, 128, 256, 500, 512, 1024, 4096, 65536)
VALUES: dict[str, tuple[Any, ...]] = {
    "batch_size": SIZES,
    "global_batch_size": SIZES,
    "accumulate": (1, 2, 3, 8),
    "epochs": (1, 2, 3, 5, 30, 300),
    "optimizer": tuple(OPTIMIZERS),
    "model": ("cnn", "mlp", "resnet18", "vgg11", "vgg11_bn", "vit_b_16"),
    "lr": (1e-6, 0.001, 0.1, 3.0),
    "lr_scaling": tuple(SCALINGS),
    "lr_base_batch": (1, 64, 256, 8192),
    "max_lr": (1e-6, 0.001, 0.1, 3.0),
    "schedule": tuple(RULES),
    "milestones": ("1", "2,4", "30,60"),
    "gamma": (0.1, 0.5),
    "warmup_epochs": (0, 0.5, 1, 5),
    "warmup_from": (0, 0.01),
}
PROCESSES = (1, 1, 2, 3, 4, 7, 8, 64)
IMAGES = (1, 2, 3, 7, 12, 63, 64, 65, 280, 1438, 12_000, 60_000, 1_281_167)
KINDS = tuple(DATA_DEFAULTS)


def cases(seed: int, count: int) -> Iterator[tuple[dict[str, Any], str, int, int]]:
    """Yield random options with a kind of data, its training images and a number of processes."""
    draw = random.Random(seed)
    for _ in range(count):
        names = draw.sample(sorted(VALUES), draw.choice((0, 1, 1, 2, 2, 3, 4, 6)))
        given = {name: draw.choice(VALUES[name]) for name in names}
        yield given, draw.choice(KINDS), draw.choice(IMAGES), draw.choice(PROCESSES)


def planned(given: dict[str, Any], kind: str, images: int, processes: int) -> UserError | None:
    """Plan a run as the command line does; return the error if there is one."""
    origins = dict.fromkeys(given, "flag")
    try:
        config = make_config(TrainConfig, given, origins)
        make_plan(resolve(config, origins, kind, images, "fp32")[0], processes, images)
    except UserError as error:
        return error
    return None


def blamed(message: str) -> set[str]:
    """Return the options that an error is about, without those that it misses."""
    return {name.replace("-", "_") for name in re.findall(r"(?<!needs )--([a-z-]+)", message)}


@pytest.mark.parametrize("seed", range(8))
def test_errors_name_only_what_was_given(seed: int) -> None:
    wrong = []
    for given, kind, images, processes in cases(seed, 2000):
        error = planned(given, kind, images, processes)
        if error and not blamed(error.message) <= given.keys():
            wrong.append((given, kind, images, processes, error.message))
    assert wrong == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("images", IMAGES)
def test_defaults_never_fail(kind: str, images: int) -> None:
    for processes in (1, 2, 3, 8):
        error = planned({}, kind, images, processes)
        if images >= 8 * processes:
            assert error is None, (processes, error.message)


@pytest.mark.parametrize("seed", range(4))
def test_batches_that_a_hint_proposes_fit_the_processes(seed: int) -> None:
    for given, kind, images, processes in cases(seed, 4000):
        error = planned(given, kind, images, processes)
        if error is None or "cannot share" not in error.message:
            continue
        sizes = re.findall(r"--([a-z-]+) (\d+)", error.hint)
        proposed = given | {name.replace("-", "_"): int(size) for name, size in sizes}
        proposed.pop("accumulate", None)
        again = planned(proposed, kind, images, processes)
        assert again is None or "global batch" in again.message or "global-batch" not in again.message, (
            given,
            processes,
            error.hint,
            again.message,
        )
