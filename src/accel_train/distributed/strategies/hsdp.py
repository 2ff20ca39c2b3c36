"""HSDP: FSDP2 within groups of processes, which are replicas of each other, as under DDP."""

import warnings
from collections.abc import Mapping

from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, ParallelismConfig

from accel_train.config.strategies import check_processes
from accel_train.distributed.environment_check import check_environment
from accel_train.distributed.strategies.fsdp2 import FSDP2


class HSDP(FSDP2):
    """FSDP2 on a mesh of replicas × shards: gradients are reduce-scattered in a group, then all-reduced between them.

    Ranks r × N to r × N + N - 1 store the N shards of replica r.
    """

    name = "HSDP"

    def __init__(self, shard_size: int) -> None:
        self._shard_size = shard_size

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        check_environment(environ, applies=self.variables)
        check_processes("hsdp", {"shard_size": self._shard_size}, processes)

    def describe(self, processes: int) -> str:
        return f"HSDP: {processes // self._shard_size} replicas × {self._shard_size} shards"

    def part(self, rank: int) -> int:
        return rank % self._shard_size

    def activate(self, accelerator: Accelerator, plugin: FullyShardedDataParallelPlugin) -> None:
        """Give Accelerate the mesh too; its constructor would refuse one on CPUs (accelerate 1.15)."""
        super().activate(accelerator, plugin)
        # torch 2.14 warns because Accelerate flattens a mesh and slices it again.
        warnings.filterwarnings("ignore", message="Slicing a flattened dim from root mesh")
        replicas = accelerator.num_processes // self._shard_size
        config = ParallelismConfig(dp_replicate_size=replicas, dp_shard_size=self._shard_size)
        accelerator.state.parallelism_config = config
        accelerator.state.device_mesh = config.get_device_mesh(accelerator.device.type)
        config._validate_accelerator(accelerator)
