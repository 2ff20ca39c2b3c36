"""The options of the model: a panel of the help."""

from typing import Annotated

from accel_train.config.fields import Config, Everyday, Placement, UserPath


class Model(Config):
    """The network, its first weights and how it is run."""

    panel = "Model"

    model: Annotated[str | None, Everyday()] = None
    """Network: cnn, mlp, wide_resnet, wide_resnet_DEPTH_WIDTH, any torchvision classifier, or my.module:function.
    Default: by data set."""
    init_from: Annotated[UserPath | None, Everyday()] = None
    """Initialize weights from a run or a file (no optimizer state)."""
    compile: bool = False
    """Compile the model: the first update takes a minute, the others less time on a GPU. CPUs gain little."""
    cudnn_benchmark: bool = False
    """On a GPU, time cuDNN's convolution algorithms for each new shape and use the fastest; two runs may use
    different ones."""
    activation_checkpointing: Annotated[bool, Placement()] = False
    """Compute the activations inside each block again in the backward pass: less memory, about a third more time."""
