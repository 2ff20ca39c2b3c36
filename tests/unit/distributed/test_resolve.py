"""Device, precision, strategy and backend are the option's, else the launcher's; what cannot be had is rejected."""

from typing import Any

import pytest
import torch

from accel_train.distributed.resolve import choose_backend, choose_device, choose_precision, choose_strategy
from accel_train.errors import UserError

LAUNCHER_ASKS_FOR_FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
HYBRID = {"FSDP_SHARDING_STRATEGY": "HYBRID_SHARD", "LOCAL_WORLD_SIZE": "4"}
LAUNCHED = {"RANK": "0", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}


def sizes(replicas: int, shards: int) -> dict[str, str]:
    """Return the variables of Accelerate's parallelism config."""
    return {
        "ACCELERATE_USE_PARALLELISM_CONFIG": "true",
        "PARALLELISM_CONFIG_DP_REPLICATE_SIZE": str(replicas),
        "PARALLELISM_CONFIG_DP_SHARD_SIZE": str(shards),
        "PARALLELISM_CONFIG_TP_SIZE": "1",
    }


@pytest.mark.parametrize(
    ("asked", "given", "environ", "expected"),
    [
        ("auto", {}, {}, ("ddp", {})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP, ("fsdp2", {})),
        ("auto", {}, {"ACCELERATE_USE_FSDP": "false"}, ("ddp", {})),
        ("auto", {}, {"ACCELERATE_USE_FSDP": ""}, ("ddp", {})),
        ("auto", {}, {"ACCELERATE_USE_FSDP": "on"}, ("fsdp2", {})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(1, 1), ("fsdp2", {})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(1, 8), ("fsdp2", {})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(2, 4), ("hsdp", {"shard_size": 4})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP | HYBRID, ("hsdp", {"shard_size": 4})),
        ("auto", {}, LAUNCHER_ASKS_FOR_FSDP | HYBRID | {"FSDP_SHARDING_STRATEGY": "4"}, ("hsdp", {"shard_size": 4})),
        ("auto", {"shard_size": 2}, LAUNCHER_ASKS_FOR_FSDP | sizes(2, 4), ("hsdp", {"shard_size": 2})),
        ("ddp", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(2, 4), ("ddp", {})),
        ("fsdp2", {}, HYBRID, ("fsdp2", {})),
        ("fsdp2", {}, {}, ("fsdp2", {})),
        ("hsdp", {"shard_size": 2}, LAUNCHER_ASKS_FOR_FSDP, ("hsdp", {"shard_size": 2})),
    ],
)
def test_strategy_option_wins_over_the_launcher(
    asked: str, given: dict[str, Any], environ: dict[str, str], expected: tuple[str, dict[str, Any]]
) -> None:
    assert choose_strategy(asked, given, 8, environ) == expected


@pytest.mark.parametrize(
    ("asked", "given", "environ", "error"),
    [
        (
            *("auto", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(2, 2)),
            "dp_replicate_size 2 and dp_shard_size 2 of the launcher's configuration are for 4 processes, and this run "
            "has 8",
        ),
        (
            *("auto", {}, sizes(2, 4)),
            "dp_replicate_size 2 and dp_shard_size 4 of the launcher's configuration have no effect without FSDP",
        ),
        (
            *("auto", {}, LAUNCHER_ASKS_FOR_FSDP | HYBRID | {"LOCAL_WORLD_SIZE": "8"}),
            "FSDP_SHARDING_STRATEGY=HYBRID_SHARD makes each machine a replica, and this run has one machine",
        ),
        ("auto", {"shard_size": 2}, {}, "--shard-size 2 has no effect with --strategy ddp"),
        ("auto", {"shard_size": 2}, LAUNCHER_ASKS_FOR_FSDP, "--shard-size 2 has no effect with --strategy fsdp2"),
        ("hsdp", {}, LAUNCHER_ASKS_FOR_FSDP | sizes(2, 4), "--strategy hsdp needs --shard-size"),
    ],
)
def test_contradiction_of_launcher_and_options_is_rejected(
    asked: str, given: dict[str, Any], environ: dict[str, str], error: str
) -> None:
    with pytest.raises(UserError) as rejected:
        choose_strategy(asked, given, 8, environ)
    assert rejected.value.message == error


def test_backend_is_gloo_on_cpus_and_none_for_a_single_process() -> None:
    assert choose_backend(None, "cpu", 2) == "gloo"
    assert choose_backend("gloo", "cpu", 2) == "gloo"
    assert choose_backend(None, "cuda", 2) == "nccl"
    assert choose_backend("gloo", "cuda", 2) == "gloo"
    assert choose_backend(None, "cpu", 1) is None
    with pytest.raises(UserError, match="has no effect on a single process"):
        choose_backend("gloo", "cpu", 1)
    with pytest.raises(UserError, match="2 processes cannot share mps"):
        choose_backend(None, "mps", 2)


@pytest.mark.parametrize(
    ("backend", "device", "there"), [("nccl", "cpu", True), ("mpi", "cuda", True), ("mpi", "cpu", False)]
)
def test_backend_that_does_not_work_here_is_rejected(
    monkeypatch: pytest.MonkeyPatch, backend: str, device: str, there: bool
) -> None:
    monkeypatch.setattr(torch.distributed, f"is_{backend}_available", lambda: there)
    message = f"--backend {backend} does not support {device}" if there else "this torch was built without it"
    with pytest.raises(UserError, match=message):
        choose_backend(backend, device, 2)


@pytest.mark.parametrize(
    ("asked", "cuda", "mps", "environ", "expected"),
    [
        ("auto", False, False, {}, "cpu"),
        ("auto", True, False, {}, "cuda"),
        ("auto", False, True, {}, "mps"),
        ("auto", True, False, {"ACCELERATE_USE_CPU": "true"}, "cpu"),
        ("cuda", True, False, {"ACCELERATE_USE_CPU": "true"}, "cuda"),
        ("cpu", True, False, {}, "cpu"),
    ],
)
def test_device_option_wins_over_the_launcher(
    monkeypatch: pytest.MonkeyPatch, asked: str, cuda: bool, mps: bool, environ: dict[str, str], expected: str
) -> None:
    see_devices(monkeypatch, cuda=int(cuda), mps=mps)
    assert choose_device(asked, environ) == expected


@pytest.mark.parametrize(
    ("asked", "cuda", "use_cpu", "expected"),
    [
        ("auto", False, True, "cpu"),
        ("auto", True, True, "cpu"),
        ("auto", True, False, "cuda"),
        ("cpu", False, False, "cpu"),
        ("cuda", True, True, "cuda"),
    ],
)
def test_device_option_wins_over_the_file_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch, asked: str, cuda: bool, use_cpu: bool, expected: str
) -> None:
    see_devices(monkeypatch, cuda=int(cuda), mps=False)
    assert choose_device(asked, {}, use_cpu) == expected


def test_file_of_the_launcher_that_says_use_cpu_false_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    see_devices(monkeypatch, cuda=0, mps=False)
    with pytest.raises(UserError, match="use_cpu: false, but torch finds no GPU") as rejected:
        choose_device("auto", {}, use_cpu=False)
    assert rejected.value.hint == "set use_cpu: true in it, or add --device cpu"
    see_devices(monkeypatch, cuda=0, mps=True)
    assert choose_device("auto", {}, use_cpu=False) == "mps"


@pytest.mark.parametrize("asked", ["cuda", "mps"])
def test_missing_device_is_rejected(monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    see_devices(monkeypatch, cuda=0, mps=False)
    with pytest.raises(UserError, match=f"--device {asked}, but torch finds no such device"):
        choose_device(asked, {})


def test_fewer_devices_than_processes_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    see_devices(monkeypatch, cuda=1, mps=False)
    with pytest.raises(UserError, match="2 processes on this machine, but 1 cuda device"):
        choose_device("cuda", LAUNCHED)
    assert choose_device("cpu", LAUNCHED) == "cpu"
    see_devices(monkeypatch, cuda=2, mps=False)
    assert choose_device("auto", LAUNCHED) == "cuda"


def see_devices(monkeypatch: pytest.MonkeyPatch, *, cuda: int, mps: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.mark.parametrize(
    ("asked", "launcher", "device", "expected"),
    [
        (None, None, "cpu", "fp32"),
        (None, "no", "cpu", "fp32"),
        (None, "bf16", "cpu", "bf16"),
        (None, "BF16", "cpu", "bf16"),
        (None, " ", "cpu", "fp32"),
        (None, "fp16", "cuda", "fp16"),
        ("fp32", "bf16", "cpu", "fp32"),
        ("tf32", None, "cuda", "tf32"),
        ("fp64", None, "cpu", "fp64"),
    ],
)
def test_precision_option_wins_over_the_launcher(
    asked: str | None, launcher: str | None, device: str, expected: str
) -> None:
    assert choose_precision(asked, device, {"ACCELERATE_MIXED_PRECISION": launcher} if launcher else {}) == expected


@pytest.mark.parametrize(
    ("asked", "launcher", "device", "error"),
    [
        ("fp16", "no", "cpu", "--precision fp16 has no effect on cpu"),
        ("tf32", "no", "mps", "--precision tf32 has no effect on mps"),
        (None, "fp16", "cpu", "mixed_precision of the launcher's configuration: fp16 has no effect on cpu"),
        (None, "fp8", "cuda", "mixed_precision of the launcher's configuration: fp8 is not supported"),
        (None, "garbage", "cpu", "mixed_precision of the launcher's configuration: garbage is not supported"),
        ("fp64", "no", "mps", "--precision fp64 does not exist on mps"),
    ],
)
def test_precision_without_effect_is_rejected(asked: str | None, launcher: str, device: str, error: str) -> None:
    with pytest.raises(UserError) as rejected:
        choose_precision(asked, device, {"ACCELERATE_MIXED_PRECISION": launcher})
    assert rejected.value.message == error
