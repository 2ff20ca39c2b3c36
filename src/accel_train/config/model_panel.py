"""The options of the model: a panel of the help."""

from typing import Annotated, Self

from pydantic import Field, PositiveFloat, model_validator

from accel_train.config.fields import Config, Everyday, Name, Placement, UserName
from accel_train.errors import UserError


class Model(Config):
    """The network, its first weights and how it is run."""

    panel = "Model"

    model: Annotated[Name | None, Everyday()] = None
    """Network: cnn, mlp, airbench, airbench94, wide_resnet, wide_resnet_DEPTH_WIDTH, any torchvision classifier,
    timm:NAME, timm:hf-hub:OWNER/NAME or my.module:function. Default: by data set."""
    weights: Annotated[UserName, Everyday()] = "none"
    """Weights to start from: DEFAULT or another name that torchvision or timm gives them, such as IMAGENET1K_V2; a run
    folder; or a file. Images are prepared as for them."""
    stochastic_depth: Annotated[float | None, Field(ge=0, lt=1)] = None
    """Probability that an image skips the last residual block in training; it falls linearly to 0 at the first.
    Default: the model's."""
    zero_init_residual: bool | None = None
    """Start with γ = 0 in the last BatchNorm of each residual block, so that blocks are identities at first. Default:
    the model's, which is yes for ResNets."""
    head_init_std: PositiveFloat | None = None
    """Standard deviation of the head's first weights, such as 0.01. Default: the model's."""
    batch_norm_momentum: Annotated[float | None, Field(gt=0, le=1)] = None
    """Weight of a new batch in BatchNorm's running statistics; higher for short runs. Default: the model's, mostly
    0.1."""
    compile: bool = False
    """Compile the model: the first update takes a minute, the others less time on a GPU. CPUs gain little."""
    cudnn_benchmark: bool = False
    """On a GPU, time cuDNN's convolution algorithms for each new shape and use the fastest; two runs may use
    different ones."""
    activation_checkpointing: Annotated[bool, Placement()] = False
    """Compute the activations inside each block again in the backward pass: less memory, about a third more time."""

    @model_validator(mode="after")
    def _refuse_initialization_without_effect(self) -> Self:
        if not self.starts_from_weights:
            return self
        if self.zero_init_residual is not None:
            option = "--zero-init-residual" if self.zero_init_residual else "--no-zero-init-residual"
            raise UserError(f"{option} has no effect with --weights {self.weights}", "leave one of them out")
        if self.head_init_std is not None:
            raise UserError(
                f"--head-init-std {self.head_init_std:g} has no effect with --weights {self.weights}",
                "leave one of them out: a new head starts small",
            )
        return self

    @property
    def starts_from_weights(self) -> bool:
        """Whether the run starts from given weights, not from random ones."""
        return self.weights != "none"
