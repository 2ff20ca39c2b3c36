"""The processes of a pipeline are replicas × stages; each keeps its own stage of the model."""

from collections import OrderedDict
from typing import NamedTuple

import pytest
import torch
from torch import nn

from accel_train.config.strategies import STRATEGIES, check_options
from accel_train.distributed.strategies.pipeline import Pipeline, _stored, drop_blocks
from accel_train.errors import UserError


class Part(NamedTuple):
    """A block."""

    name: str
    forward: nn.Module
    parts: tuple[str, ...]


@pytest.mark.parametrize(
    ("processes", "stages", "message", "hint"),
    [
        (1, 2, "Pipeline has no effect on a single process", "use --strategy ddp, or add --processes"),
        (4, 1, "--pipeline-stages 1 cuts nothing, which is DDP", "choose --pipeline-stages 2 or 4"),
        (4, 3, "--pipeline-stages 3 must divide the 4 processes", "choose --pipeline-stages 2 or 4"),
        (3, 2, "--pipeline-stages 2 must divide the 3 processes", "choose --pipeline-stages 3"),
        (2, 4, "--pipeline-stages 4 must divide the 2 processes", "choose --pipeline-stages 2"),
    ],
)
def test_numbers_of_stages_that_do_not_fit_are_rejected(processes: int, stages: int, message: str, hint: str) -> None:
    with pytest.raises(UserError) as rejected:
        Pipeline(stages).check(processes, "cpu", {})
    assert (rejected.value.message, rejected.value.hint) == (message, hint)


@pytest.mark.parametrize(("processes", "stages"), [(2, 2), (4, 2), (4, 4), (6, 3)])
def test_numbers_of_stages_that_divide_the_processes_are_accepted(processes: int, stages: int) -> None:
    Pipeline(stages).check(processes, "cpu", {})


def test_neighbours_are_the_stages_of_a_replica() -> None:
    strategy = Pipeline(2, "gpipe")
    assert [strategy.part(rank) for rank in range(4)] == [0, 1, 0, 1]
    assert [strategy.place(rank) for rank in (1, 2)] == ["stage 1 of replica 0", "stage 0 of replica 1"]
    assert strategy.describe(2) == "pipeline of 2 stages, gpipe"
    assert strategy.describe(4) == "2 replicas × pipeline of 2 stages, gpipe"
    assert Pipeline(2).describe(2) == "pipeline of 2 stages, 1f1b"
    assert not strategy.is_replicated(torch.zeros(1))


def model() -> tuple[nn.Module, list[Part]]:
    body = nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3), norm=nn.BatchNorm2d(2)))
    net = nn.Module()
    net.body, net.head = body, nn.Linear(2, 2)
    net.token = nn.Parameter(torch.zeros(3))
    parts = [("body.conv", ("body.conv", "token")), ("body.norm", ("body.norm",)), ("head", ("head",))]
    return net, [Part(name, net.get_submodule(name), of) for name, of in parts]


def test_each_tensor_is_stored_by_the_stage_of_its_block() -> None:
    net, blocks = model()
    found = _stored(net, [blocks[:1], blocks[1:]])
    assert list(found) == list(net.state_dict())
    assert {name for name, stored in found.items() if stored.stage == 0} == {
        "token",
        "body.conv.weight",
        "body.conv.bias",
    }
    assert found["body.norm.num_batches_tracked"].dtype == torch.int64


def test_names_stay_the_same_when_other_stages_are_removed() -> None:
    net, blocks = model()
    drop_blocks(net, blocks[:1])
    names = ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert list(net.state_dict()) == [*(f"body.norm.{name}" for name in names), "head.weight", "head.bias"]


@pytest.mark.parametrize(
    ("strategy", "options", "message"),
    [
        ("pipeline", {}, "--strategy pipeline needs --pipeline-stages"),
        ("ddp", {"pipeline_stages": 2}, "--pipeline-stages 2 has no effect with --strategy ddp"),
        ("fsdp2", {"pipeline_split": "fc"}, "--pipeline-split fc has no effect with --strategy fsdp2"),
    ],
)
def test_options_belong_to_the_strategy(strategy: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        check_options(strategy, options)
    check_options("pipeline", dict.fromkeys(STRATEGIES["pipeline"].options, 2))
