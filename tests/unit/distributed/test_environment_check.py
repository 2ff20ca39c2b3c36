"""What the environment asks is obeyed and printed, refused with a reason, or harmless."""

import socket

import pytest

from accel_train.distributed.environment_check import check_environment, check_interface, obeyed
from accel_train.distributed.environment_table import TABLE, Refused
from accel_train.errors import UserError

OF_ACCELERATE = {
    "ACCELERATE_USE_CPU": "False",
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_DYNAMO_BACKEND": "NO",
    "ACCELERATE_DYNAMO_MODE": "default",
    "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
    "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
    "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION": "False",
    "OMP_NUM_THREADS": "1",
}
"""What `accelerate launch` sets if it is asked for nothing."""
FSDP_OF_ACCELERATE = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_SHARDING_STRATEGY": "FULL_SHARD",
    "FSDP_RESHARD_AFTER_FORWARD": "true",
    "FSDP_OFFLOAD_PARAMS": "false",
    "FSDP_MIN_NUM_PARAMS": "100000000",
    "FSDP_AUTO_WRAP_POLICY": "SIZE_BASED_WRAP",
    "FSDP_STATE_DICT_TYPE": "SHARDED_STATE_DICT",
    "FSDP_FORWARD_PREFETCH": "false",
    "FSDP_USE_ORIG_PARAMS": "true",
    "FSDP_CPU_RAM_EFFICIENT_LOADING": "true",
    "FSDP_SYNC_MODULE_STATES": "true",
    "FSDP_ACTIVATION_CHECKPOINTING": "false",
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": "false",
}
TWO = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        OF_ACCELERATE,
        OF_ACCELERATE | FSDP_OF_ACCELERATE,
        TWO,
        {"RANK": "", "WORLD_SIZE": " ", "LOCAL_RANK": "", "MASTER_PORT": "", "OMP_NUM_THREADS": ""},
        {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1", "ACCELERATE_USE_DEEPSPEED": "false"},
        {"ACCELERATE_NEW": "False", "FSDP_NEW": "", "PATH": "/bin", "SLURM_JOB_ID": "3"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"ACCELERATE_LOG_LEVEL": "debug", "FORK_LAUNCHED": "1", "USE_TORCH_XLA": "false"},
        {"TORCH_COMPILE_DISABLE": "1"},  # without --compile
        {"FSDP_VERSION": "1", "FSDP_RESHARD_AFTER_FORWARD": "FULL_SHARD"},  # without FSDP
    ],
)
def test_environment_that_asks_for_nothing_unsupported_is_accepted(environ: dict[str, str]) -> None:
    check_environment(environ)


@pytest.mark.parametrize(
    ("name", "value", "asks_for", "hint"),
    [
        ("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4", "gradient accumulation by Accelerate", "use --accumulate 4"),
        ("ACCELERATE_GRADIENT_CLIPPING", "0.5", "clipping by Accelerate", "use --clip-norm 0.5"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "torch.compile by Accelerate", "use --compile"),
        ("ACCELERATE_DYNAMO_BACKEND", "eager", "torch.compile by Accelerate", "use --compile"),
        ("ACCELERATE_USE_DEEPSPEED", "true", "DeepSpeed", "use distributed_type MULTI_GPU"),
        ("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2", "DeepSpeed", "use distributed_type MULTI_GPU"),
        ("ACCELERATE_USE_MEGATRON_LM", "True", "Megatron-LM", "use distributed_type MULTI_GPU"),
        ("MEGATRON_LM_TP_DEGREE", "2", "Megatron-LM", "use distributed_type MULTI_GPU"),
        ("PARALLELISM_CONFIG_CP_SIZE", "4", "tensor, context or sequence", "use distributed_type MULTI_GPU"),
        ("PARALLELISM_CONFIG_TP_SIZE", "2", "tensor, context or sequence", "use distributed_type MULTI_GPU"),
        ("ACCELERATE_FP8_BACKEND", "TE", "fp8", "choose mixed_precision no, bf16 or fp16"),
        ("ACCELERATE_DOWNCAST_BF16", "yes", "bf16 on TPUs", "remove it"),
        ("ACCELERATE_TORCH_DEVICE", "meta", "a device by Accelerate", "use --device instead"),
        ("ACCELERATE_CPU_AFFINITY", "1", "CPU affinity", "set enable_cpu_affinity: false"),
        ("ACCELERATE_DEBUG_MODE", "true", "checks of Accelerate's collectives", "set debug: false"),
        ("ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE", "DATA_PARALLEL", "SageMaker", "choose no distributed type"),
        ("OMP_DYNAMIC", "true", "a number of threads that depends on the load", "set OMP_NUM_THREADS"),
        ("MKL_DOMAIN_NUM_THREADS", "MKL_BLAS=1", "other numbers of threads", "set OMP_NUM_THREADS"),
        ("ONEDNN_DEFAULT_FPMATH_MODE", "BF16", "less precision", "use --precision bf16"),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", "checks under which torch's DDP crashes", "set it to INFO"),
    ],
)
def test_unsupported_variable_is_refused_with_reason_and_hint(name: str, value: str, asks_for: str, hint: str) -> None:
    with pytest.raises(UserError) as refused:
        check_environment(OF_ACCELERATE | {name: value})
    assert refused.value.message.startswith(f"{name}={value} asks for {asks_for}")
    assert refused.value.message.endswith(", which is not supported")
    assert refused.value.hint.startswith(hint)


@pytest.mark.parametrize(
    ("applies", "name", "value", "asks_for"),
    [
        ("fsdp2", "FSDP_VERSION", "1", "FSDP 1"),
        ("fsdp2", "FSDP_OFFLOAD_PARAMS", "true", "fsdp_offload_params"),
        ("fsdp2", "FSDP_SHARDING_STRATEGY", "SHARD_GRAD_OP", "another sharding"),
        ("fsdp2", "FSDP_ACTIVATION_CHECKPOINTING", "True", "fsdp_activation_checkpointing"),
        ("fsdp2", "FSDP_IGNORED_MODULES", "head", "fsdp_ignored_modules"),
        ("compile", "TORCH_COMPILE_DISABLE", "1", "no compiler"),
        ("compile", "TORCHDYNAMO_DISABLE", "1", "no compiler"),
        ("compile", "TORCHDYNAMO_SUPPRESS_ERRORS", "1", "what cannot be compiled"),
    ],
)
def test_variable_is_refused_where_it_applies(applies: str, name: str, value: str, asks_for: str) -> None:
    check_environment({name: value})
    check_environment({name: "false" if name != "FSDP_VERSION" else "2"}, applies)
    with pytest.raises(UserError, match=f"{name}={value} asks for {asks_for}"):
        check_environment({name: value}, applies)


@pytest.mark.parametrize("name", ["ACCELERATE_NEW", "FSDP_NEW", "ACCEL_TRAIN_EPOCHS"])
def test_unknown_variable_of_accelerate_is_refused(name: str) -> None:
    with pytest.raises(UserError, match=f"{name}=3 is not known") as refused:
        check_environment({name: "3"})
    assert refused.value.hint == f"unset {name}"


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"LOCAL_RANK": "0"}, "LOCAL_RANK=0 is set without RANK and WORLD_SIZE"),
        ({"LOCAL_WORLD_SIZE": "2"}, "LOCAL_WORLD_SIZE=2 is set without RANK and WORLD_SIZE"),
        ({"RANK": "0"}, "RANK=0 is set without WORLD_SIZE"),
        ({"WORLD_SIZE": "2", "RANK": ""}, "WORLD_SIZE=2 is set without RANK"),
        (TWO | {"RANK": "2"}, "RANK=2 must be less than WORLD_SIZE=2"),
        (TWO | {"LOCAL_RANK": "2"}, "LOCAL_RANK=2 must be less than LOCAL_WORLD_SIZE=2"),
        (TWO | {"LOCAL_WORLD_SIZE": "4"}, "LOCAL_WORLD_SIZE=4 is more than WORLD_SIZE=2"),
        (TWO | {"RANK": "x"}, "RANK=x is not a whole number"),
        (TWO | {"RANK": "-1"}, "RANK=-1 is not a whole number"),
        (TWO | {"WORLD_SIZE": "0"}, "WORLD_SIZE=0 is not above 0"),
        (TWO | {"WORLD_SIZE": "1.5"}, "WORLD_SIZE=1.5 is not a whole number"),
        (TWO | {"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE=0 is not above 0"),
        (TWO | {"MASTER_PORT": "http"}, "MASTER_PORT=http is not a whole number"),
        ({"MASTER_PORT": "70000"}, "MASTER_PORT=70000 is not a port from 1 to 65535"),
        ({"OMP_NUM_THREADS": "many"}, "OMP_NUM_THREADS=many is not a whole number"),
        ({"OMP_NUM_THREADS": "4,,2"}, "OMP_NUM_THREADS=4,,2 is not a whole number"),
        ({"OMP_NUM_THREADS": "0"}, "OMP_NUM_THREADS=0 is not above 0"),
        ({"MKL_NUM_THREADS": "abc"}, "MKL_NUM_THREADS=abc is not a whole number"),
        ({"ACCELERATE_USE_CPU": "maybe"}, "ACCELERATE_USE_CPU=maybe is neither true nor false"),
        ({"ACCELERATE_USE_FSDP": "2"}, "ACCELERATE_USE_FSDP=2 is neither true nor false"),
        ({"ACCELERATE_LOG_LEVEL": "loud"}, "ACCELERATE_LOG_LEVEL=loud is no log level"),
        ({"FORK_LAUNCHED": "maybe"}, "FORK_LAUNCHED=maybe is neither true nor false"),
        ({"USE_TORCH_XLA": "maybe"}, "USE_TORCH_XLA=maybe is neither true nor false"),
        ({"ACCELERATE_ENABLE_RICH": "x"}, "ACCELERATE_ENABLE_RICH=x is neither true nor false"),
        ({"ACCEL_TRAIN_LAUNCHER_PID": "me"}, "ACCEL_TRAIN_LAUNCHER_PID=me is not a whole number"),
    ],
)
def test_malformed_or_contradictory_variables_are_one_error(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as refused:
        check_environment(environ)
    assert refused.value.message == message
    assert "unset" in refused.value.hint


@pytest.mark.parametrize(("name", "agrees"), [("NVIDIA_TF32_OVERRIDE", "0"), ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "0")])
def test_tf32_behind_torch_is_refused_where_fp32_runs_on_a_gpu(name: str, agrees: str) -> None:
    for applies in ("run", "fp32 on a CPU", "tf32 on a GPU"):
        check_environment({name: "1"}, applies)
    check_environment({name: agrees}, "fp32 on a GPU")
    with pytest.raises(UserError, match=f"{name}=1 asks for TF32 instead of fp32") as refused:
        check_environment({name: "1"}, "fp32 on a GPU")
    assert refused.value.hint == "add --precision tf32, or unset the variable"


SEVERAL_MACHINES = {
    "PET_NNODES": ("2", "1:4"),
    "SM_HOSTS": ('["algo-1","algo-2"]',),
    "TF_CONFIG": ('{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 1}}',),
}


@pytest.mark.parametrize(("name", "values"), SEVERAL_MACHINES.items())
def test_process_of_several_machines_without_a_place_is_refused(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        with pytest.raises(UserError) as refused:
            check_environment({name: value})
        assert refused.value.message.startswith(f"{name}={value} names several machines")
        assert "torchrun -m accel_train train" in refused.value.hint
        check_environment({name: value} | TWO | {"MASTER_ADDR": "a", "MASTER_PORT": "1"})  # a launcher has joined them
    for one in ("1", "1:1", '["algo-1"]', '{"cluster": {"worker": ["a:1"]}}', "{}", "nonsense", "", "null"):
        check_environment({name: one})


@pytest.mark.parametrize("name", ["FSDP_SERVICE_HOST", "FSDP_PORT", "ACCELERATE_PORT_80_TCP_ADDR"])
def test_services_of_kubernetes_are_harmless(name: str) -> None:
    check_environment({name: "tcp://10.0.0.1:80"})


def test_one_process_may_know_that_it_is_alone() -> None:
    check_environment({"WORLD_SIZE": "1"})


def test_cause_is_reported_before_its_details() -> None:
    deepspeed = {"ACCELERATE_USE_DEEPSPEED": "true", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4"}
    with pytest.raises(UserError, match="asks for DeepSpeed"):
        check_environment(deepspeed)


@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if isinstance(row, Refused)])
def test_every_hint_can_be_printed(name: str) -> None:
    row = TABLE[name]
    assert isinstance(row, Refused)
    assert "{" not in row.hint.format(value="4")
    assert row.applies in ("run", "fsdp2", "compile", "fp32 on a GPU")
    assert all(value == value.lower() for value in row.nothing)


@pytest.mark.parametrize(
    ("environ", "given", "printed"),
    [
        (OF_ACCELERATE, (), ("OMP_NUM_THREADS=1",)),
        (OF_ACCELERATE, ("threads",), ()),
        (OF_ACCELERATE, ("exact",), ()),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, (), ("ACCELERATE_MIXED_PRECISION=bf16",)),
        ({"ACCELERATE_MIXED_PRECISION": "bf16"}, ("precision",), ()),
        ({"ACCELERATE_USE_CPU": "yes"}, ("model",), ("ACCELERATE_USE_CPU=yes",)),
        ({"CUDA_VISIBLE_DEVICES": ""}, (), ("CUDA_VISIBLE_DEVICES=",)),
        ({"CUDA_VISIBLE_DEVICES": "0"}, (), ("CUDA_VISIBLE_DEVICES=0",)),
        ({"NCCL_ALGO": "Ring", "NCCL_VERSION": "2.27", "NCCL_DEBUG": "INFO"}, (), ("NCCL_ALGO=Ring",)),
        (TWO | {"MASTER_ADDR": "a", "MASTER_PORT": "1"}, (), ()),
        ({"FSDP_RESHARD_AFTER_FORWARD": "false", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}, (), ()),
        (
            {"OMP_NUM_THREADS": "2", "GLOO_SOCKET_IFNAME": "lo", "ACCEL_TRAIN_LAUNCHER_SET": "OMP_NUM_THREADS"},
            (),
            ("GLOO_SOCKET_IFNAME=lo",),
        ),
    ],
)
def test_obeyed_variables_are_printed(
    environ: dict[str, str], given: tuple[str, ...], printed: tuple[str, ...]
) -> None:
    assert obeyed(environ, given, ("run",)) == printed


def test_variables_of_strategy_and_compiler_are_printed_with_them() -> None:
    environ = {"FSDP_RESHARD_AFTER_FORWARD": "false", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}
    assert obeyed(environ, (), ("run", "fsdp2")) == ("FSDP_RESHARD_AFTER_FORWARD=false",)
    assert obeyed(environ, (), ("run", "compile")) == ("TORCHINDUCTOR_MAX_AUTOTUNE=1",)


@pytest.mark.parametrize(
    ("name", "value", "missing"),
    [
        ("GLOO_SOCKET_IFNAME", "eth7", "eth7"),
        ("GLOO_SOCKET_IFNAME", "lo,eth7", "eth7"),
        ("GLOO_SOCKET_IFNAME", "l", "l"),
        ("NCCL_SOCKET_IFNAME", "eth7", "eth7"),
        ("NCCL_SOCKET_IFNAME", "=l", "l"),
        ("GLOO_SOCKET_IFNAME", "lo", None),
        ("GLOO_SOCKET_IFNAME", "", None),
        ("NCCL_SOCKET_IFNAME", "l", None),
        ("NCCL_SOCKET_IFNAME", "eth7,lo", None),
        ("NCCL_SOCKET_IFNAME", "^eth7", None),
        ("NCCL_SOCKET_IFNAME", "=lo", None),
    ],
)
def test_missing_interface_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, missing: str | None
) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    if missing is None:
        check_interface(name, {name: value})
        return
    with pytest.raises(UserError) as refused:
        check_interface(name, {name: value})
    assert refused.value.message == f"{name}={value}: this machine has no network interface {missing}"
    assert refused.value.hint == f"set {name} to one of lo, eth0, or unset it"
