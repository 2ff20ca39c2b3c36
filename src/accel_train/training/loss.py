"""The training loss, auxiliary heads included.

Shape suffixes: B images, K classes.
"""

from typing import Any

from torch import Tensor
from torch.nn import functional

from accel_train.errors import UserError

_AUXILIARY_WEIGHT = {
    "GoogLeNetOutputs": 0.3,  # Szegedy et al. 2015, §5
    "InceptionOutputs": 0.4,  # torchvision's recipe
}


def split_outputs(outputs: Any) -> tuple[Tensor, list[Tensor], float]:
    """Return the logits_BK, those of auxiliary heads (GoogLeNet, Inception v3), and the weight of each head.

    Raises:
        UserError: the model returns something else.
    """
    if isinstance(outputs, Tensor):
        return outputs, [], 0.0
    kind = type(outputs).__name__
    if kind not in _AUXILIARY_WEIGHT:
        raise UserError(f"the model returns {kind}, not logits", "return one tensor of images × classes")
    main, *auxiliary = outputs
    return main, [head for head in auxiliary if head is not None], _AUXILIARY_WEIGHT[kind]


def training_loss(outputs: Any, labels_B: Tensor, label_smoothing: float) -> tuple[Tensor, Tensor]:
    """Return the mean loss over a batch, and its logits_BK."""
    logits_BK, auxiliary, weight = split_outputs(outputs)
    loss = functional.cross_entropy(logits_BK, labels_B, label_smoothing=label_smoothing)
    for head_BK in auxiliary:
        loss = loss + weight * functional.cross_entropy(head_BK, labels_B, label_smoothing=label_smoothing)
    return loss, logits_BK
