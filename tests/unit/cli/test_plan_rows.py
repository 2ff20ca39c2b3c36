"""A plan as rows and a table of texts."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.planning import subject

from accel_train.cli.plan_rows import columns, next_step, problem_rows, speed_row
from accel_train.config.plan_options import PlanConfig
from accel_train.planning.choice import Choice
from accel_train.planning.estimate import Estimate
from accel_train.planning.memory import DeviceMemory, Line, Peak
from accel_train.planning.speed import Speed
from accel_train.planning.traffic import Traffic
from accel_train.planning.ways import Way

MEMORY = DeviceMemory(1_000_000, 1, 1_000_000, 0, Line(0, 1), Peak((Line(2e6, 0),)))
DDP = Estimate(Way("ddp"), 1, (MEMORY,), Traffic(0, 0))
IMPOSSIBLE = Estimate(Way("fsdp2", shards=2), 1, problem="--exact does not work with FSDP2 yet")


def planned(**options: Any) -> Any:
    return SimpleNamespace(config=subject(**options).config, plan=subject(**options).plan)


def test_a_way_without_numbers_has_dashes() -> None:
    found = columns([DDP, IMPOSSIBLE], planned(), PlanConfig(), None)
    assert {column.name: list(column.texts) for column in found} == {
        "strategy": ["ddp", "fsdp2"],
        "peak": ["2 MB", "–"],
        "activations": ["0.016 KB", "–"],
        "weights": ["1 MB", "–"],
        "optimizer": ["1 MB", "–"],
    }


def test_a_reason_is_given_once() -> None:
    checkpointed = replace(IMPOSSIBLE, way=replace(IMPOSSIBLE.way, checkpointing=True))
    assert list(problem_rows([DDP, IMPOSSIBLE, checkpointed])) == [
        ("note", "fsdp2, fsdp2 + checkpointing: --exact does not work with FSDP2 yet")
    ]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"images_per_second": 20_000}, "20,000 images/s of one device"),
        ({"device": "cpu"}, "20,000 images/s of one device, measured on this CPU"),
        ({}, "20,000 images/s of one device, measured on this GPU"),
    ],
    ids=("given", "cpu", "gpu"),
)
def test_where_the_speed_comes_from(asked: dict[str, Any], text: str) -> None:
    assert speed_row(Speed.of_training(20_000), PlanConfig(**asked)) == ("speed", text)


@pytest.mark.parametrize(
    ("largest", "options", "step"),
    [
        (98, {}, "give --batch-size 98"),
        (14, {"global_batch_size": 64}, "give --batch-size 8"),
        (0, {}, "give more --gpus, or more --gpu-memory"),
    ],
    ids=("largest", "global_batch", "none"),
)
def test_what_to_do_if_nothing_fits(largest: int, options: dict[str, Any], step: str) -> None:
    assert next_step(Choice(None, "", largest), planned(**options)) == step
