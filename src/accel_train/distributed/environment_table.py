"""The environment variables that launchers set, or that Accelerate and torch read: obeyed, refused or harmless.

A name that ends in ``*`` stands for all names that begin so and have no row of their own. No torch is imported here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from accel_train.distributed.environment_values import (
    NOTHING,
    YES,
    count,
    cpu_capability,
    flag,
    log_level,
    number,
    port,
    thread_counts,
)


@dataclass(frozen=True)
class Obeyed:
    """A variable that is obeyed."""

    read: Callable[[str], object] = str
    """Raises ValueError if the value is malformed."""
    unless: tuple[str, ...] = ()
    """Options that override it."""
    printed: bool = True
    nothing: tuple[str, ...] = ("",)
    """Values that are not printed, because they ask for nothing."""
    changes_numbers: bool = False
    """True if it chooses among kernels that differ in the last bits, and no option or torch function shows which."""
    applies: str = "run"


@dataclass(frozen=True)
class Refused:
    """A variable that asks for what is not supported, unless its value is one of `nothing`."""

    asks_for: str
    hint: str
    nothing: tuple[str, ...] = NOTHING
    applies: str = "run"
    """To every run, or only to those with the strategy fsdp2, the option compile or fp32 on a GPU."""


@dataclass(frozen=True)
class Harmless:
    """A variable that changes nothing here."""

    why: str


Row = Obeyed | Refused | Harmless

HYBRID_SHARD = ("hybrid_shard", "4")
"""Values of FSDP_SHARDING_STRATEGY, in lower case, that ask for HSDP with the processes of a machine as one replica."""
_REMOVE = "remove it from the launcher's configuration, or unset the variable"
_STRATEGIES = "use distributed_type MULTI_GPU (DDP) or FSDP, as in accelerate_configs/"
_DEEPSPEED, _MEGATRON = Refused("DeepSpeed", _STRATEGIES), Refused("Megatron-LM", _STRATEGIES)
_PARALLELISM = Refused("tensor, context or sequence parallelism", _STRATEGIES, (*NOTHING, "1"))
_THREADS = "set OMP_NUM_THREADS or --threads instead"
_TF32 = "add --precision tf32, or unset the variable"
_COMPILED = "unset it, or leave out --compile"
_OF_JOB = Harmless("translated to RANK, WORLD_SIZE, … at the start, or without effect")
_KERNELS = Obeyed(changes_numbers=True)
_SPEED, _DIAGNOSTICS = Harmless("speed and placement only"), Harmless("logging and diagnostics only")
_OTHER_DEVICES = Harmless("for devices that --device does not offer; what runs is compared with what was asked")
_OWN_FILES = Harmless("for Accelerate's checkpoints and weights; accel_train writes its own")
_TRACKER = Harmless("for trackers of Accelerate, which are not used")

TABLE: dict[str, Row] = {
    # Accelerate: first what its wizard asks
    "ACCELERATE_USE_DEEPSPEED": _DEEPSPEED,
    "ACCELERATE_DEEPSPEED_*": _DEEPSPEED,
    "ACCELERATE_CONFIG_DS_FIELDS": Harmless("DeepSpeed itself is refused"),
    "ACCELERATE_USE_MEGATRON_LM": _MEGATRON,
    "MEGATRON_LM_*": _MEGATRON,
    "ACCELERATE_USE_PARALLELISM_CONFIG": Harmless("the sizes of the parallelism config say which"),
    **{f"PARALLELISM_CONFIG_{of}_SIZE": _PARALLELISM for of in ("TP", "CP", "SP")},
    **dict.fromkeys(
        ("PARALLELISM_CONFIG_DP_REPLICATE_SIZE", "PARALLELISM_CONFIG_DP_SHARD_SIZE"),
        Obeyed(count, unless=("strategy",), nothing=("", "1")),
    ),
    "PARALLELISM_CONFIG_*": Harmless("says how; the sizes say whether, and are refused"),
    "ACCELERATE_ALLOW_CP_STANDALONE": Harmless("allows what a parallelism config asks for, which is refused"),
    "ACCELERATE_USE_FSDP": Obeyed(flag, unless=("strategy",), nothing=NOTHING),
    "ACCELERATE_USE_CPU": Obeyed(flag, unless=("device",), nothing=NOTHING),
    "ACCELERATE_MIXED_PRECISION": Obeyed(unless=("precision",), nothing=NOTHING),
    "ACCELERATE_FP8_*": Refused("fp8", "choose mixed_precision no, bf16 or fp16"),
    "ACCELERATE_DOWNCAST_BF16": Refused("bf16 on TPUs", _REMOVE),
    "ACCELERATE_DYNAMO_BACKEND": Refused(
        "torch.compile by Accelerate", "use --compile, and remove dynamo_config from the launcher's configuration"
    ),
    "ACCELERATE_DYNAMO_*": Harmless("says how to compile; ACCELERATE_DYNAMO_BACKEND says whether, and is refused"),
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": Refused(
        "gradient accumulation by Accelerate", "use --accumulate {value} instead, and " + _REMOVE, (*NOTHING, "1")
    ),
    "ACCELERATE_GRADIENT_CLIPPING": Refused(
        "clipping by Accelerate", "use --clip-norm {value} instead, and " + _REMOVE, (*NOTHING, "auto")
    ),
    "ACCELERATE_TORCH_DEVICE": Refused("a device by Accelerate", "use --device instead, and " + _REMOVE, ("",)),
    "ACCELERATE_CPU_AFFINITY": Refused(
        "CPU affinity (numa efficiency)", "set enable_cpu_affinity: false, and bind processes with numactl"
    ),
    "ACCELERATE_DEBUG_MODE": Refused(
        "checks of Accelerate's collectives", "set debug: false; --watch-every compares the processes instead"
    ),
    "ACCELERATE_SAGEMAKER_DISTRIBUTED_TYPE": Refused("SageMaker's own data parallelism", "choose no distributed type"),
    "ACCELERATE_USE_SAGEMAKER": Harmless("names the place only"),
    "ACCELERATE_LOG_LEVEL": Obeyed(log_level, printed=False),
    **dict.fromkeys(("ACCELERATE_ENABLE_RICH", "FORK_LAUNCHED", "USE_TORCH_XLA"), Obeyed(flag, printed=False)),
    "ACCELERATE_DISABLE_RICH": _DIAGNOSTICS,
    "ACCELERATE_DEBUG_RDV_FILE": Harmless("for Accelerate's debug_launcher"),
    "ACCELERATE_BYPASS_DEVICE_MAP": Harmless("for models that Accelerate has split over devices"),
    "ACCELERATE_INIT_INCLUDE_BUFFERS": Harmless("for models without memory, which are not made"),
    # FSDP
    "FSDP_VERSION": Refused("FSDP 1", "set fsdp_version: 2 in fsdp_config", ("", "2"), "fsdp2"),
    "FSDP_SHARDING_STRATEGY": Refused(
        "another sharding",
        "set fsdp_sharding_strategy: FULL_SHARD or HYBRID_SHARD",
        (*NOTHING, "full_shard", "1", *HYBRID_SHARD),
        "fsdp2",
    ),
    "FSDP_RESHARD_AFTER_FORWARD": Obeyed(flag, nothing=("", *YES), applies="fsdp2"),
    "FSDP_OFFLOAD_PARAMS": Refused(
        "fsdp_offload_params",
        "set fsdp_offload_params: false; --activation-checkpointing saves memory, too",
        applies="fsdp2",
    ),
    "FSDP_ACTIVATION_CHECKPOINTING": Refused(
        "fsdp_activation_checkpointing",
        "use --activation-checkpointing instead, and set fsdp_activation_checkpointing: false",
        applies="fsdp2",
    ),
    "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD": Refused("activations on the CPU", _REMOVE, applies="fsdp2"),
    "FSDP_IGNORED_MODULES": Refused("fsdp_ignored_modules", "remove fsdp_ignored_modules", applies="fsdp2"),
    **dict.fromkeys(
        ("FSDP_AUTO_WRAP_POLICY", "FSDP_TRANSFORMER_CLS_TO_WRAP", "FSDP_MIN_NUM_PARAMS"),
        Harmless("accel_train chooses the blocks to shard one by one"),
    ),
    **dict.fromkeys(
        ("FSDP_BACKWARD_PREFETCH", "FSDP_FORWARD_PREFETCH", "FSDP_USE_ORIG_PARAMS"), Harmless("FSDP 1 only")
    ),
    **dict.fromkeys(
        ("FSDP_SYNC_MODULE_STATES", "FSDP_CPU_RAM_EFFICIENT_LOADING"),
        Harmless("every process makes the same weights, from the seed"),
    ),
    "FSDP_STATE_DICT_TYPE": _OWN_FILES,
    # the place of a process; distributed/environment.py checks that these agree
    "RANK": Obeyed(number, printed=False),
    "WORLD_SIZE": Obeyed(count, printed=False),
    "LOCAL_RANK": Obeyed(number, printed=False),
    "LOCAL_WORLD_SIZE": Obeyed(count, printed=False),
    "GROUP_RANK": Obeyed(number, printed=False),
    "GROUP_WORLD_SIZE": Obeyed(count, printed=False),
    "MASTER_ADDR": Obeyed(printed=False),
    "MASTER_PORT": Obeyed(port, printed=False),
    "ACCEL_TRAIN_LAUNCHER_PID": Obeyed(count, printed=False),
    "ACCEL_TRAIN_JOB_*": Harmless("set by schedulers.py"),
    "ACCEL_TRAIN_LAUNCHER_SET": Obeyed(printed=False),
    "TORCHELASTIC_RUN_ID": Obeyed(printed=False),
    "TORCHELASTIC_MAX_RESTARTS": Obeyed(number, printed=False),
    "TORCHELASTIC_USE_AGENT_STORE": Obeyed(printed=False),
    **dict.fromkeys(
        ("PET_*", "TORCHELASTIC_*", "TORCH_ELASTIC_*", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "PYTHON_EXEC"),
        Harmless("for torchrun itself"),
    ),
    "TORCH_WORKER_SERVER_SOCKET": _DIAGNOSTICS,
    **dict.fromkeys(("GROUP_*", "ROLE_*", "NODE_RANK", "NPROC"), Harmless("RANK and LOCAL_RANK say the same")),
    **dict.fromkeys(("SLURM_*", "OMPI_*", "PMI_*", "PMIX_*", "MPI_*", "MV2_*"), _OF_JOB),
    **dict.fromkeys(("SLURMD_*", "SRUN_*", "HYDI_*", "MPIR_*", "HFI_*", "IPATH_*", "SM_*"), _OF_JOB),
    **dict.fromkeys(("JSM_*", "FLUX_*", "PALS_*", "ALPS_*", "HOROVOD_*", "PBS_*"), _OF_JOB),
    # threads
    "OMP_NUM_THREADS": Obeyed(thread_counts, unless=("threads", "exact")),
    "MKL_NUM_THREADS": Obeyed(count, unless=("threads", "exact")),
    "MKL_DYNAMIC": Harmless("torch sets it when it sets the number of threads"),
    "MKL_DOMAIN_NUM_THREADS": Refused("other numbers of threads in parts of MKL", _THREADS, ("",)),
    "OMP_DYNAMIC": Refused("a number of threads that depends on the load", _THREADS),
    "OMP_THREAD_LIMIT": Obeyed(count, printed=False),  # checked where the number of threads is set
    "OMP_MAX_ACTIVE_LEVELS": Refused("one thread, which torch does not see", _THREADS, ("", *"123456789")),
    **dict.fromkeys(("OMP_*", "GOMP_*", "KMP_*"), _SPEED),
    # numbers
    "NVIDIA_TF32_OVERRIDE": Refused("TF32 instead of fp32", _TF32, ("", "0"), "fp32 on a GPU"),
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": Refused("TF32 instead of fp32", _TF32, applies="fp32 on a GPU"),
    "ONEDNN_DEFAULT_FPMATH_MODE": Refused("less precision", "use --precision bf16 instead", ("", "strict")),
    "DNNL_DEFAULT_FPMATH_MODE": Refused("less precision", "use --precision bf16 instead", ("", "strict")),
    "PYTORCH_MPS_FAST_MATH": Refused("less precision", "use --precision bf16 instead"),
    **dict.fromkeys(("MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE"), _KERNELS),
    **dict.fromkeys(
        (f"{of}_{what}" for of in ("ONEDNN", "DNNL") for what in ("MAX_CPU_ISA", "CPU_ISA_HINTS")), _KERNELS
    ),
    "GLIBC_TUNABLES": _KERNELS,  # also chooses the kernels of exp, log and the like
    **dict.fromkeys(("CUBLAS_*", "CUBLASLT_*", "CUDNN_*", "TORCH_CUDNN_*", "TORCH_BLAS_*"), _KERNELS),
    "DISABLE_ADDMM_CUDA_LT": _KERNELS,
    "PYTORCH_TUNABLEOP_ENABLED": Refused("kernels chosen by their time, which differ from run to run", _REMOVE),
    "ATEN_CPU_CAPABILITY": Obeyed(cpu_capability),
    # the compiler
    "TORCH_COMPILE_DISABLE": Refused("no compiler", _COMPILED, applies="compile"),
    "TORCHDYNAMO_DISABLE": Refused("no compiler", _COMPILED, applies="compile"),
    "TORCHDYNAMO_SUPPRESS_ERRORS": Refused("what cannot be compiled to be run as it is", _COMPILED, applies="compile"),
    "TORCH_COMPILE_OVERRIDE_BACKENDS": Refused("another compiler", _COMPILED, applies="compile"),
    "TORCHINDUCTOR_*": Obeyed(applies="compile"),
    "TORCHDYNAMO_*": Obeyed(applies="compile"),
    # devices and communication
    "CUDA_VISIBLE_DEVICES": Obeyed(nothing=()),
    "NCCL_VERSION": Harmless("set by containers"),
    "NCCL_DEBUG": _DIAGNOSTICS,
    "NCCL_*": Obeyed(),
    "GLOO_*": Obeyed(),
    "TORCH_NCCL_*": Harmless("how NCCL's errors and hangs are handled; the watchdog acts before"),
    "TORCH_DISTRIBUTED_DEBUG": Refused(
        "checks under which torch's DDP crashes (2.14, Gloo)", "set it to INFO", ("", "off", "info")
    ),
    "USE_LIBUV": _SPEED,
    "PYTORCH_ENABLE_MPS_FALLBACK": Harmless("set by Accelerate"),
    "PYTORCH_*": Harmless("memory and diagnostics only"),
    "LOGLEVEL": _DIAGNOSTICS,
    "PYTHONPATH": Harmless("where modules are found"),
    "CXX": Obeyed(applies="compile", printed=False),
    **dict.fromkeys(
        ("ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "MLU_VISIBLE_DEVICES", "MUSA_VISIBLE_DEVICES"),
        _OTHER_DEVICES,
    ),
    **dict.fromkeys(
        ("NEURON_RT_VISIBLE_CORES", "SDAA_VISIBLE_DEVICES", "ZE_AFFINITY_MASK", "DEEPSPEED_USE_HPU"), _OTHER_DEVICES
    ),
    **dict.fromkeys(("PT_HPU_LAZY_MODE", "PJRT_DEVICE", "TPU_NAME", "XLA_*"), _OTHER_DEVICES),
    "MLFLOW_*": _TRACKER,
    "CLEARML_*": _TRACKER,
    "AWS_*": Harmless("for Amazon's tools"),
    "KAGGLE*": Harmless("for notebooks"),
    "HF_HOME": Harmless("where accelerate launch finds its configuration"),
    "XDG_CACHE_HOME": Obeyed(printed=False),
}
"""By name; the first that is met is reported."""

CLOSED = ("ACCELERATE_", "FSDP_", "MEGATRON_LM_", "PARALLELISM_CONFIG_", "ACCEL_TRAIN_")
"""Prefixes of names that are refused if they have no row."""
