"""A checkpoint's tensors are loaded into the model that wrote them, and into no other."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.checkpoint.api import CheckpointException

from accel_train.checkpoints.checkpointer import Checkpointer, TrainedTensors, load_tensors
from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError
from accel_train.training.state import TrainingState


def trained(*sizes: int) -> TrainedTensors:
    """Return a perceptron of these sizes and its optimizer, after an update."""
    model = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(sizes)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, sizes[0])).sum().backward()
    optimizer.step()
    return TrainedTensors(model, optimizer, None, DDP())


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Return a checkpoint of a perceptron of 4, 3 and 2 units."""
    checkpointer = Checkpointer(tmp_path, trained(4, 3, 2), group=None, rank=0, keep=1)
    checkpointer.save(TrainingState(update=7), {"nonce": "a"})
    assert checkpointer.committed(wait=True) == [7]
    checkpointer.close()
    return tmp_path / "checkpoints" / "update_000007"


def test_tensors_are_loaded_as_they_were_saved(checkpoint: Path) -> None:
    (first, second) = trained(4, 3, 2), trained(4, 3, 2)
    load_tensors(checkpoint, first)
    load_tensors(checkpoint, second)
    for name, tensor in first.by_name().items():
        assert torch.equal(tensor, second.by_name()[name])
    assert set(first.by_name()) == {
        f"{kind}{layer}.{of}{slot}"
        for kind, slot in (("model.", ""), ("optimizer.", ".momentum_buffer"))
        for layer in (0, 1)
        for of in ("weight", "bias")
    }


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        ((4, 3, 5), "has model.1.weight of shape (2, 3), the run of (5, 3)"),
        ((9, 3, 2), "has model.0.weight of shape (3, 4), the run of (3, 9)"),
        ((4, 3), "and the run do not both have the tensor model.1.bias"),
    ],
)
def test_tensors_of_another_model_are_refused(checkpoint: Path, sizes: tuple[int, ...], problem: str) -> None:
    other = trained(*sizes)
    before = {name: tensor.clone() for name, tensor in other.model.state_dict().items()}
    with pytest.raises(UserError) as refused:
        load_tensors(checkpoint, other)
    assert refused.value.message == f"{checkpoint} {problem}"
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.model.state_dict().items())


@pytest.mark.parametrize(
    ("slot", "made", "problem"),
    [
        ("momentum_buffer", torch.zeros(1, 1), "of shape (1, 1), the run of (3, 4)"),
        ("momentum_buffer", torch.zeros(4), "of shape (4,), the run of (3, 4)"),
        ("momentum_buffer", torch.zeros(()), "of shape (), the run of (3, 4)"),
        ("momentum_buffer", torch.zeros(300, 400), "of shape (300, 400), the run of (3, 4)"),
        ("momentum_buffer", torch.zeros(3, 4, dtype=torch.int32), "of type torch.int32, the run of torch.float32"),
        ("momentum_buffer", torch.zeros(3, 4, dtype=torch.uint8), "of type torch.uint8, the run of torch.float32"),
        ("step", torch.zeros(3, 4), "of shape (3, 4), the run of ()"),
        ("step", torch.zeros((), dtype=torch.int64), "of type torch.int64, the run of torch.float32"),
    ],
)
def test_optimizer_tensor_that_would_be_read_or_written_beyond_its_end_is_refused(
    tmp_path: Path, slot: str, made: torch.Tensor, problem: str
) -> None:
    forger = trained(4, 3, 2)
    forger.optimizer.state[next(forger.model.parameters())][slot] = made
    checkpointer = Checkpointer(tmp_path, forger, group=None, rank=0, keep=1)
    checkpointer.save(TrainingState(update=7), {"nonce": "a"})
    checkpointer.committed(wait=True)
    checkpointer.close()
    checkpoint = tmp_path / "checkpoints" / "update_000007"
    with pytest.raises(UserError) as refused:
        load_tensors(checkpoint, trained(4, 3, 2))
    assert refused.value.message == f"{checkpoint} has optimizer.0.weight.{slot} {problem}"


def test_torchs_exception_that_is_no_exception_is_replaced_by_its_cause(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*given: Any, **named: Any) -> None:
        raise CheckpointException("load", {0: (OSError(5, "Input/output error"), None)})  # type: ignore[dict-item]

    monkeypatch.setattr("torch.distributed.checkpoint.state_dict_loader.load", load)
    with pytest.raises(OSError, match="Input/output error"):
        load_tensors(checkpoint, trained(4, 3, 2))


class FirstLayer(DDP):
    """The strategy of a process that stores the first layer only."""

    elsewhere = frozenset({"1.weight", "1.bias"})


def first_layer(*sizes: int) -> TrainedTensors:
    found = trained(*sizes)
    del found.model[1]
    return TrainedTensors(found.model, torch.optim.SGD(found.model.parameters(), lr=0.1), None, FirstLayer())


def test_stage_loads_its_part_of_the_checkpoint_of_a_whole_model(checkpoint: Path) -> None:
    whole, stage = trained(4, 3, 2), first_layer(4, 3, 2)
    load_tensors(checkpoint, whole)
    load_tensors(checkpoint, stage)
    names = {"model.0.weight", "model.0.bias", *(f"optimizer.0.{of}.momentum_buffer" for of in ("weight", "bias"))}
    assert set(stage.by_name()) == names
    assert all(torch.equal(tensor, whole.by_name()[name]) for name, tensor in stage.by_name().items())


def test_stage_rejects_a_checkpoint_without_the_layers_of_other_stages(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, trained(4, 3), group=None, rank=0, keep=1)
    checkpointer.save(TrainingState(update=7), {"nonce": "a"})
    checkpointer.committed(wait=True)
    checkpointer.close()
    with pytest.raises(UserError, match=r"do not both have the tensor model\.1\.bias"):
        load_tensors(tmp_path / "checkpoints" / "update_000007", first_layer(4, 3, 2))
