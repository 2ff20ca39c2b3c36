"""What starts a planned run: options of train, and the YAML file that accelerate launch needs."""

from typing import Any

from accel_train.planning.traffic import Cluster
from accel_train.planning.ways import Way

DECIDED = (
    *("processes", "strategy", "shard_size", "pipeline_stages", "pipeline_split", "pipeline_schedule"),
    *("activation_checkpointing", "accumulate", "batch_size", "global_batch_size"),
)
"""Fields of the config that a plan decides: they are left out of the options that were given."""
_MIXED = {"bf16": "bf16", "fp16": "fp16"}


def decided_options(way: Way, split: tuple[str, ...], schedule: str | None, batches: tuple[int, int]) -> dict[str, Any]:
    """Return the options that a plan decides, given batch size and global batch; the YAML file tells the rest.

    Accelerate has no word for a pipeline.
    """
    batch_size, global_batch = batches
    options: dict[str, Any] = {"batch_size": batch_size, "global_batch_size": global_batch}
    if way.checkpointing:
        options["activation_checkpointing"] = True
    if way.stages > 1:
        options |= {"strategy": "pipeline", "pipeline_stages": way.stages, "pipeline_split": list(split)}
        options["pipeline_schedule"] = schedule
    return options


def accelerate_config(way: Way, cluster: Cluster, *, precision: str, on_cpu: bool) -> dict[str, Any]:
    """Return what a YAML file of accelerate launch contains; see accelerate_configs/ for each kind.

    For CPU processes it says MULTI_GPU, too: of MULTI_CPU accelerate launch starts one process (1.15).
    """
    sharded = way.shards > 1
    kind = "FSDP" if sharded else "MULTI_GPU" if cluster.devices > 1 else "NO"
    config: dict[str, Any] = {"compute_environment": "LOCAL_MACHINE", "distributed_type": kind}
    if sharded:
        config["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    if cluster.nodes > 1:
        config |= {"machine_rank": 0, "main_process_ip": "10.0.0.1", "main_process_port": 29500}
        config |= {"rdzv_backend": "static", "same_network": True}
    config |= {
        "mixed_precision": _MIXED.get(precision, "no"),
        "num_machines": cluster.nodes,
        "num_processes": cluster.devices,
        "use_cpu": on_cpu,
    }
    if way.strategy == "hsdp":
        config["parallelism_config"] = {
            "parallelism_config_dp_replicate_size": cluster.devices // way.shards,
            "parallelism_config_dp_shard_size": way.shards,
        }
    return config
