"""The training loss, auxiliary heads included.

Shape suffixes: B images, K classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor
from torch.nn import functional

from accel_train.errors import UserError
from accel_train.loggers.text import quantity

_AUXILIARY_WEIGHT = {
    "GoogLeNetOutputs": 0.3,  # Szegedy et al. 2015, §5
    "InceptionOutputs": 0.4,  # torchvision's recipe
}


class Targets(NamedTuple):
    """The labels of a micro-batch; two for each image if images are mixed."""

    labels_B: Tensor
    """Of the image with the larger share: predictions are compared with it."""
    others_B: Tensor | None = None
    """Of the other image."""
    others_share: float = 0.0
    """Its share, the same in the whole micro-batch."""


@dataclass(frozen=True)
class Loss:
    """Cross-entropy with label smoothing, weights of classes, and labels in two shares."""

    label_smoothing: float = 0.0
    class_weights_K: Tensor | None = None
    """The factor of an image's loss by its label."""
    classes: int | None = None
    """If given, the logits of a model in training are checked."""

    def __call__(self, outputs: Any, targets: Targets) -> tuple[Tensor, Tensor]:
        """Return the mean loss over a micro-batch, and its logits_BK."""
        logits_BK, auxiliary, weight = split_outputs(outputs)
        if self.classes is not None:
            _check_logits(logits_BK, len(targets.labels_B), self.classes)
        loss = self._of_head(logits_BK, targets)
        for head_BK in auxiliary:
            loss = loss + weight * self._of_head(head_BK, targets)
        return loss, logits_BK

    def _of_head(self, logits_BK: Tensor, targets: Targets) -> Tensor:
        loss = self._mean(logits_BK, targets.labels_B)
        if targets.others_B is None:
            return loss
        return loss.lerp(self._mean(logits_BK, targets.others_B), targets.others_share)

    def _mean(self, logits_BK: Tensor, labels_B: Tensor) -> Tensor:
        """Return the mean over images, also with class weights: it is then that over the images of any update."""
        if self.class_weights_K is None:
            return functional.cross_entropy(logits_BK, labels_B, label_smoothing=self.label_smoothing)
        losses_B = functional.cross_entropy(logits_BK, labels_B, label_smoothing=self.label_smoothing, reduction="none")
        return (losses_B * self.class_weights_K[labels_B]).mean()


def _check_logits(logits_BK: Tensor, images: int, classes: int) -> None:
    """Refuse outputs of a model that a loss would take for other classes, or that do not train it.

    Raises:
        UserError: they are no logits of these images and classes, or do not depend on weights that train.
    """
    if logits_BK.shape != (images, classes) or not logits_BK.is_floating_point():
        given = " × ".join(map(str, logits_BK.shape)) or "one number"
        raise UserError(
            f"the model returns {logits_BK.dtype} of {given} for {quantity(images, 'image')} and {classes:,} classes",
            f"return logits of images × classes: {images} × {classes}",
        )
    if not logits_BK.requires_grad:
        raise UserError(
            "the logits of the model do not depend on weights that train",
            "leave out detach() and no_grad() in its forward pass",
        )


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
