"""The config of the command `plan`: a training run, and the machines that it is planned for."""

from typing import Annotated, Self

from pydantic import PositiveFloat, model_validator

from accel_train.config.fields import Config, Everyday, PositiveInt
from accel_train.config.options import TrainConfig
from accel_train.errors import UserError


class Planned(Config):
    """The machines that a run is planned for, and what is known of its data and speed."""

    panel = "Plan"

    gpus: Annotated[PositiveInt | None, Everyday()] = None
    """GPUs of each machine, one process each; CPU processes with --device cpu. Default: --processes, else 1."""
    nodes: Annotated[PositiveInt, Everyday()] = 1
    """Machines."""
    gpu_memory: Annotated[PositiveFloat | None, Everyday()] = None
    """Memory of a GPU, GB. Default: not limited."""
    link_gbps: Annotated[PositiveFloat | None, Everyday()] = None
    """Speed of the slowest link, Gbit/s: the network of a machine; of one machine alone, that between its GPUs."""
    price: Annotated[PositiveFloat | None, Everyday()] = None
    """Price of a GPU for an hour, in any currency."""
    images_per_second: Annotated[PositiveFloat | None, Everyday()] = None
    """Training speed of one GPU, such as bench measures it; or --measure."""
    images: Annotated[PositiveInt | None, Everyday()] = None
    """Training images, if the data are not on this machine; needs --classes."""
    classes: Annotated[PositiveInt | None, Everyday()] = None
    """Classes, likewise."""

    @model_validator(mode="after")
    def _refuse_half_of_the_data(self) -> Self:
        if (self.images is None) != (self.classes is None):
            missing = "classes" if self.classes is None else "images"
            raise UserError(f"--{missing} is missing: data that are not here need both", f"add --{missing}")
        return self


class PlanConfig(Planned, TrainConfig):
    """A plan of a training run."""
