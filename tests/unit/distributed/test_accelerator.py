"""What was asked for is what runs, again in the same process; rank 0's results and errors reach all ranks."""

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType, DynamoBackend
from torch import nn

from accel_train.distributed import accelerator as module
from accel_train.distributed.accelerator import Processes, start, stop
from accel_train.distributed.strategies.ddp import DDP
from accel_train.errors import UserError


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide launchers, and restore what `start` changes."""
    for name in ("RANK", "WORLD_SIZE", "ACCELERATE_MIXED_PRECISION", "ACCELERATE_USE_FSDP"):
        monkeypatch.delenv(name, raising=False)
    precision, tf32 = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    yield
    stop()
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = tf32


def start_one(precision: str | None = None) -> Processes:
    return start(device="cpu", backend=None, precision=precision, timeout=1)


@pytest.mark.parametrize(
    ("precision", "autocast", "dtype"),
    [(None, "no", torch.float32), ("bf16", "bf16", torch.float32), ("fp64", "no", torch.float64)],
)
def test_single_process_runs_what_was_asked(precision: str | None, autocast: str, dtype: torch.dtype) -> None:
    processes = start_one(precision)
    assert (processes.rank, processes.count, processes.is_main, processes.group) == (0, 1, True, None)
    assert (processes.device, processes.device_name) == (torch.device("cpu"), "cpu")
    assert (processes.precision, processes.dtype) == (precision or "fp32", dtype)
    assert processes.accelerator.mixed_precision == autocast
    assert processes.strategy_name == "single process"
    assert processes.strategy.name == "DDP"


HOSTILE = {
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4",
    "ACCELERATE_DYNAMO_BACKEND": "INDUCTOR",
    "ACCELERATE_MIXED_PRECISION": "bf16",
    "ACCELERATE_DEBUG_MODE": "true",
    "ACCELERATE_TORCH_DEVICE": "meta",
    "ACCELERATE_USE_SAGEMAKER": "true",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
    "PARALLELISM_CONFIG_TP_SIZE": "2",
    "ACCELERATE_USE_MEGATRON_LM": "true",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "FSDP_OFFLOAD_PARAMS": "true",
    "FORK_LAUNCHED": "1",
    "LOCAL_RANK": "0",
    "PMI_SIZE": "2",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMP_NUM_THREADS": "4,3,2",
}


def test_accelerate_does_not_hear_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    threads = torch.get_num_threads()
    accelerator = start_one("fp32").accelerator
    assert accelerator.gradient_accumulation_steps == 1
    assert accelerator.state.dynamo_plugin.backend == DynamoBackend.NO
    assert (accelerator.mixed_precision, accelerator.device) == ("no", torch.device("cpu"))
    assert accelerator.distributed_type == DistributedType.NO
    assert not accelerator.state.debug
    assert not torch.distributed.is_initialized()
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("variables", [{}, {"ACCELERATE_USE_FSDP": "false", "OMP_NUM_THREADS": "3"}, HOSTILE])
def test_environment_is_as_before_for_the_next_run(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    start_one("fp32")
    assert dict(os.environ) == before


def test_one_process_of_a_launcher_needs_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    processes = start_one()
    assert (processes.count, processes.group) == (1, None)


def test_second_run_in_a_process_gets_its_own_precision() -> None:
    for precision, autocast in (("bf16", "no"), ("fp32", "no"), ("bf16", "bf16")):
        assert start_one(precision).accelerator.mixed_precision == ("bf16" if precision == "bf16" else autocast)
        stop()


def test_result_of_rank_0_is_returned_and_its_error_raised() -> None:
    processes = start_one()
    assert processes.on_main(lambda: {"a": 1}) == {"a": 1}

    def fail() -> None:
        raise UserError("wrong", "do this")

    with pytest.raises(UserError, match="wrong") as raised:
        processes.on_main(fail)
    assert raised.value.hint == "do this"
    with pytest.raises(ZeroDivisionError):  # our own bug
        processes.on_main(lambda: 1 / 0)


def test_full_weights_are_contiguous_copies_with_plain_names() -> None:
    processes = start_one()
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to(memory_format=torch.channels_last)
    net[1].running_mean, net[1].running_var = torch.arange(8.0).split(4)  # views of one tensor
    net.compile()
    prepared = processes.accelerator.prepare(net)
    weights = processes.full_weights(prepared)
    assert list(weights) == list(net.state_dict())
    for name, weight in weights.items():
        assert torch.equal(weight, net.state_dict()[name])
        assert weight.is_contiguous()
        assert not weight.requires_grad
        assert weight.untyped_storage().nbytes() == weight.nbytes
    accelerator: Any = SimpleNamespace(is_main_process=False, unwrap_model=lambda m, **_: m)
    not_main = Processes(accelerator, DDP(), "fp32", None, processes.ranks)
    assert not_main.full_weights(net) == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"device": "cuda"}, "device: cuda asked for, cpu obtained"),
        ({"autocast": "bf16"}, "mixed precision: bf16 asked for, no obtained"),
        ({"backend": "gloo"}, "backend: gloo asked for, None obtained"),
    ],
)
def test_anything_else_than_asked_for_is_rejected(wrong: dict[str, str], message: str) -> None:
    accelerator: Accelerator = start_one().accelerator
    asked: dict[str, Any] = {"device": "cpu", "backend": None, "world_size": 1, "autocast": "no"} | wrong
    with pytest.raises(UserError) as rejected:
        module._check_obtained(accelerator, **asked)
    assert rejected.value.message == message


def test_strategy_that_accelerate_does_not_run_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sharded(DDP):
        name = "Sharded"

        def is_active(self, accelerator: Accelerator) -> bool:
            return False

    monkeypatch.setattr(module, "load_strategy", lambda name, options: Sharded())
    with pytest.raises(UserError, match="strategy: Sharded asked for, "):
        start_one()
