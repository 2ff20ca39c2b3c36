"""The options by which processes share the work of training: a panel of the help."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from accel_train.config.fields import Config, Everyday, Name, Placement, PositiveInt, StrategyName, split_list
from accel_train.config.strategies import STRATEGY_OPTIONS


class Strategy(Config):
    """How the processes share model and gradients."""

    panel = "Strategy"

    strategy: Annotated[StrategyName, Everyday(), Placement()] = "auto"
    """A copy of the model in each process (ddp), a shard in each (fsdp2), replicas of shards (hsdp), some of the layers
    (pipeline), or copies on the GPUs of one process (dp). auto: the launcher's, else ddp."""
    shard_size: Annotated[PositiveInt | None, Placement()] = None
    """Processes that share one copy of the model with --strategy hsdp, such as those of one machine. Default: the
    launcher's."""
    pipeline_stages: Annotated[PositiveInt | None, Placement()] = None
    """Processes that share one copy of the model with --strategy pipeline, each with a stage of it."""
    pipeline_schedule: Annotated[Literal["gpipe", "1f1b"] | None, Placement()] = None
    """Order of the passes of a stage: forward and backward in turn (1f1b), which stores fewer activations, or all
    forward first (gpipe). Default: 1f1b."""
    pipeline_split: Annotated[tuple[Name, ...] | None, BeforeValidator(split_list), Placement()] = None
    """Modules at which each stage but the first starts, such as layer3,fc. Default: by measured cost."""

    @property
    def strategy_options(self) -> dict[str, Any]:
        """The options of the strategy that are given."""
        return {name: value for name in STRATEGY_OPTIONS if (value := getattr(self, name)) is not None}
