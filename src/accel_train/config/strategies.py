"""The strategies by which processes share the work of training, one row each."""

STRATEGIES: dict[str, str] = {
    "ddp": "accel_train.distributed.strategies.ddp:DDP",
    "fsdp2": "accel_train.distributed.strategies.fsdp2:FSDP2",
}
"""Import string of the strategy's class, by the value of ``--strategy``."""
