"""HSDP: FSDP2 within groups of processes, which are replicas of each other, as under DDP."""

import warnings
from collections.abc import Mapping

from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin, ParallelismConfig

from accel_train.distributed.strategies.fsdp2 import FSDP2
from accel_train.errors import UserError


class HSDP(FSDP2):
    """FSDP2 on a mesh of replicas × shards: gradients are reduce-scattered in a group, then all-reduced between them.

    Ranks r × N to r × N + N - 1 store the N shards of replica r.
    """

    name = "HSDP"

    def __init__(self, shard_size: int) -> None:
        self._shard_size = shard_size

    def check(self, processes: int, device: str, environ: Mapping[str, str]) -> None:
        super().check(processes, device, environ)
        size = self._shard_size
        fitting = [n for n in range(2, processes) if processes % n == 0]
        if size in fitting:
            return
        if size == processes:
            reason = f"is one replica of {processes} shards, which is FSDP2"
        elif size == 1:
            reason = "shards nothing, which is DDP"
        else:
            reason = f"must divide the {processes} processes"
        sizes = f"choose --shard-size {' or '.join(map(str, fitting))}" if fitting else "start 4 processes or more"
        raise UserError(
            f"--shard-size {size} {reason}", f"{sizes}, or use --strategy {'ddp' if size == 1 else 'fsdp2'}"
        )

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
