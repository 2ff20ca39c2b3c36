"""DP splits micro-batches among the GPUs of one process, and rejects models that would train differently."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torchvision
from accelerate import Accelerator
from torch import nn

from accel_train.distributed.accelerator import stop
from accel_train.distributed.strategies.dp import DP, refuse_split_layers
from accel_train.errors import UserError
from accel_train.models.networks import mlp

DDP_COMMAND = "use DDP: accel_train train --processes"


@pytest.mark.parametrize(
    ("processes", "device", "gpus", "error", "hint"),
    [
        (
            4,
            "cuda",
            4,
            "--strategy dp is for one process, and 4 were started",
            f"{DDP_COMMAND} 4 …, without --strategy",
        ),
        (1, "cuda", 1, "--strategy dp needs two GPUs or more, and this run has 1 GPU", f"{DDP_COMMAND} 2 …"),
        (1, "cpu", 8, "--strategy dp needs two GPUs or more, and this run has 0 GPUs", f"{DDP_COMMAND} 2 …"),
    ],
)
def test_run_that_is_not_one_process_with_gpus_is_rejected_with_the_command_for_ddp(
    monkeypatch: pytest.MonkeyPatch, processes: int, device: str, gpus: int, error: str, hint: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    with pytest.raises(UserError) as rejected:
        DP().check(processes, device, {})
    assert rejected.value.message == error
    assert rejected.value.hint.startswith(hint)


def test_two_gpus_are_used_and_the_faster_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    DP().check(1, "cuda", {})
    assert DP().describe(1) == "DataParallel on 2 GPUs"
    (notice,) = DP().notices()
    assert notice == "DataParallel is slower than DDP: accel_train train --processes 2 …, without --strategy"


@pytest.mark.parametrize(
    ("model", "error"),
    [
        (torchvision.models.resnet18(), r"bn1 \(BatchNorm2d\) would see the images of one GPU only"),
        (nn.Sequential(nn.InstanceNorm2d(3, track_running_stats=True)), r"0 \(InstanceNorm2d\) would see the images"),
        (nn.Sequential(nn.ReLU(), nn.Dropout(0.1)), r"1 \(Dropout\) would draw other random numbers"),
        (nn.Sequential(nn.FeatureAlphaDropout(0.1)), r"0 \(FeatureAlphaDropout\) would draw"),
        (nn.Sequential(torchvision.ops.StochasticDepth(0.1, "row")), r"0 \(StochasticDepth\) would draw"),
        (nn.Sequential(nn.MultiheadAttention(4, 2, dropout=0.1)), r"0 \(MultiheadAttention\) would draw"),
        (nn.Sequential(nn.RReLU()), r"0 \(RReLU\) would draw"),
    ],
)
def test_model_that_would_train_differently_is_rejected_by_its_layer(model: nn.Module, error: str) -> None:
    with pytest.raises(UserError, match=f"--strategy dp cannot train this model: {error}") as rejected:
        refuse_split_layers(model)
    assert rejected.value.hint == f"{DDP_COMMAND} N …, without --strategy"


@pytest.mark.parametrize(
    "model",
    [
        mlp(10, 1, 8),
        nn.Sequential(nn.Dropout(0.0), nn.InstanceNorm2d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3)),
        torchvision.models.vit_b_16(image_size=32),
    ],
)
def test_model_that_trains_equally_is_accepted(model: nn.Module) -> None:
    refuse_split_layers(model)


def test_checkpoints_have_the_names_of_the_plain_model() -> None:
    """Without a GPU, DataParallel only calls the model."""
    try:
        accelerator, net = Accelerator(cpu=True), mlp(10, 1, 8)
        names = list(net.state_dict())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        model, _, loader = DP().prepare(accelerator, net, optimizer, torch.utils.data.DataLoader([1]))
        assert isinstance(model, nn.DataParallel)
        assert list(loader) == [torch.tensor([1])]
        plain = DP().plain_model(accelerator, model)
        assert plain is net
        assert list(plain.state_dict()) == names
        assert model(torch.zeros(2, 1, 8, 8)).shape == (2, 10)
    finally:
        stop()


def test_model_is_checked_before_it_is_prepared() -> None:
    nothing: Any = SimpleNamespace()
    with pytest.raises(UserError, match="BatchNorm1d"):
        DP().prepare(nothing, nn.Sequential(nn.BatchNorm1d(1)), nothing)
