"""The options of the model: a panel of the help."""

from typing import Annotated

from pydantic import Field

from accel_train.config.fields import Config, Everyday, Placement, UserName


class Model(Config):
    """The network, its first weights and how it is run."""

    panel = "Model"

    model: Annotated[str | None, Everyday()] = None
    """Network: cnn, mlp, wide_resnet, wide_resnet_DEPTH_WIDTH, any torchvision classifier, timm:NAME,
    timm:hf-hub:OWNER/NAME or my.module:function. Default: by data set."""
    weights: Annotated[UserName, Everyday()] = "none"
    """Weights to start from: DEFAULT or another name that torchvision or timm gives them, such as IMAGENET1K_V2; a run
    folder; or a file. Images are prepared as for them."""
    stochastic_depth: Annotated[float | None, Field(ge=0, lt=1)] = None
    """Probability that an image skips the last residual block in training; it falls linearly to 0 at the first.
    Default: the model's."""
    compile: bool = False
    """Compile the model: the first update takes a minute, the others less time on a GPU. CPUs gain little."""
    cudnn_benchmark: bool = False
    """On a GPU, time cuDNN's convolution algorithms for each new shape and use the fastest; two runs may use
    different ones."""
    activation_checkpointing: Annotated[bool, Placement()] = False
    """Compute the activations inside each block again in the backward pass: less memory, about a third more time."""

    @property
    def starts_from_weights(self) -> bool:
        """Whether the run starts from given weights, not from random ones."""
        return self.weights != "none"
