"""The training loss with label smoothing and auxiliary heads equals its formula."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.models.googlenet import GoogLeNetOutputs
from torchvision.models.inception import InceptionOutputs

from accel_train.errors import UserError
from accel_train.training.loss import split_outputs, training_loss


def logits(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_spreads_probability_over_all_classes(smoothing: float) -> None:
    loss, _ = training_loss(logits((2.0, 0.0, -1.0)), torch.tensor([0]), smoothing)
    log_sum = math.log(sum(math.exp(x) for x in (2.0, 0.0, -1.0)))
    shares = [1 - smoothing + smoothing / 3, smoothing / 3, smoothing / 3]
    expected = sum(share * (log_sum - x) for share, x in zip(shares, (2.0, 0.0, -1.0), strict=True))
    assert loss.item() == pytest.approx(expected, rel=1e-6)


MAIN, FIRST, SECOND = logits((1.0, 0.0)), logits((0.0, 1.0)), logits((3.0, 0.0))


@pytest.mark.parametrize(
    ("outputs", "heads", "weight"),
    [
        (MAIN, [], 0.0),
        (GoogLeNetOutputs(MAIN, SECOND, FIRST), [SECOND, FIRST], 0.3),
        (GoogLeNetOutputs(MAIN, None, None), [], 0.3),
        (InceptionOutputs(MAIN, FIRST), [FIRST], 0.4),
        (InceptionOutputs(MAIN, None), [], 0.4),
    ],
)
def test_auxiliary_heads_are_weighted_and_their_logits_ignored(
    outputs: object, heads: list[Tensor], weight: float
) -> None:
    labels, smoothing = torch.tensor([0]), 0.1
    assert split_outputs(outputs) == (MAIN, heads, weight)
    loss, logits_BK = training_loss(outputs, labels, smoothing)
    expected = functional.cross_entropy(MAIN, labels, label_smoothing=smoothing)
    expected += weight * sum(functional.cross_entropy(head, labels, label_smoothing=smoothing) for head in heads)
    assert logits_BK is MAIN
    torch.testing.assert_close(loss, expected)


def test_output_other_than_logits_is_rejected() -> None:
    with pytest.raises(UserError, match="the model returns tuple, not logits"):
        split_outputs((MAIN, FIRST))
