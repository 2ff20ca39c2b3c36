"""The formula is near what fake tensors give, and is used where these cannot be had."""

import sys
from types import ModuleType

import pytest
import torch
from helpers.planning import subject
from torch import Tensor, nn

from accel_train.planning import estimate
from accel_train.planning.closed_form import closed_form_memory
from accel_train.planning.estimate import estimates
from accel_train.planning.replica import whole_model_memory
from accel_train.planning.traffic import Cluster
from accel_train.planning.update import Sharing

DEEP = {"model": "wide_resnet_16_1", "data": "synthetic:4096,3,8,8,10"}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("sharing", [Sharing(1), Sharing(4), Sharing(4, 4)], ids=("one", "ddp", "fsdp2"))
def test_formula_is_near(sharing: Sharing, checkpointing: bool) -> None:
    run = subject(sharing.processes, checkpointing=checkpointing, **DEEP)
    exact, near = whole_model_memory(run, sharing), closed_form_memory(run, sharing)
    if sharing.shards == 1:
        assert (near.weights, near.gradients, near.optimizer) == (exact.weights, exact.gradients, exact.optimizer)
    assert near.peak.at(64) == pytest.approx(exact.peak.at(64), rel=0.4)


class LooksAtImages(nn.Module):
    """A model that fake tensors cannot run: they have no data."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(images.flatten(1))
        return logits if images.sum() > -1 else 2 * logits


def test_model_that_looks_at_its_images(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("looking")
    module.build = lambda classes, channels: LooksAtImages()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "looking", module)
    first, *_ = estimates(subject(model="looking:build"), Cluster(1, 1))
    assert first.devices[0].weights == 4 * 650
    assert first.problem.startswith("by a formula, because torch cannot run the model without data: ")


def test_torch_without_its_private_api(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*arguments: object) -> None:
        raise AttributeError("module 'torch' has no attribute 'fake'")

    monkeypatch.setattr(estimate, "whole_model_memory", gone)
    monkeypatch.setattr(estimate, "stage_memory", gone)
    found = list(estimates(subject(2, **DEEP), Cluster(2, 1)))
    assert [bool(each.devices) for each in found] == [True, True, True, True, False, False]
    assert found[4].problem == (
        "unknown: torch cannot run the model without data: AttributeError: module 'torch' has no attribute 'fake'"
    )
    assert torch.is_grad_enabled()
