"""The training loss with label smoothing, auxiliary heads, class weights and mixed labels equals its formula."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torchvision.models.googlenet import GoogLeNetOutputs
from torchvision.models.inception import InceptionOutputs

from accel_train.errors import UserError
from accel_train.training.loss import Loss, Targets, split_outputs


def logits(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_label_smoothing_spreads_probability_over_all_classes(smoothing: float) -> None:
    loss, _ = Loss(smoothing)(logits((2.0, 0.0, -1.0)), Targets(torch.tensor([0])))
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
    loss, logits_BK = Loss(smoothing)(outputs, Targets(labels))
    expected = functional.cross_entropy(MAIN, labels, label_smoothing=smoothing)
    expected += weight * sum(functional.cross_entropy(head, labels, label_smoothing=smoothing) for head in heads)
    assert logits_BK is MAIN
    torch.testing.assert_close(loss, expected)


def test_output_other_than_logits_is_rejected() -> None:
    with pytest.raises(UserError, match="the model returns tuple, not logits"):
        split_outputs((MAIN, FIRST))


def random_logits(images: int, classes: int) -> Tensor:
    return torch.randn(images, classes, generator=torch.Generator().manual_seed(0), requires_grad=True)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_mixed_labels_have_the_loss_and_gradient_of_their_probabilities(smoothing: float) -> None:
    labels, others = torch.tensor([0, 1, 2, 1]), torch.tensor([1, 1, 0, 2])
    rows, again = random_logits(4, 3), random_logits(4, 3)
    loss, _ = Loss(smoothing)(rows, Targets(labels, others, 0.3))
    probabilities = 0.7 * functional.one_hot(labels, 3) + 0.3 * functional.one_hot(others, 3)
    expected = functional.cross_entropy(again, probabilities, label_smoothing=smoothing)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(torch.autograd.grad(loss, rows), torch.autograd.grad(expected, again))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_class_weights_are_factors_of_each_images_loss(share: float) -> None:
    labels, others, weights = torch.tensor([0, 1, 2, 1]), torch.tensor([1, 1, 0, 2]), torch.tensor([0.5, 1.0, 4.0])
    rows = random_logits(4, 3)
    loss, _ = Loss(0.1, weights)(rows, Targets(labels, others, share))
    by_image = [
        (1 - share) * weights[a] * functional.cross_entropy(row, a, label_smoothing=0.1)
        + share * weights[b] * functional.cross_entropy(row, b, label_smoothing=0.1)
        for row, a, b in zip(rows, labels, others, strict=True)
    ]
    torch.testing.assert_close(loss, torch.stack(by_image).mean())


def test_weighted_loss_of_an_update_is_the_mean_over_its_images() -> None:
    """Micro-batches with images of other classes weigh the same: their weights do not cancel out."""
    labels, weights, rows = torch.tensor([0, 0, 2, 1]), torch.tensor([0.5, 1.0, 4.0]), random_logits(4, 3)
    loss = Loss(0.0, weights)
    halves = [loss(rows[part], Targets(labels[part]))[0] for part in (slice(2), slice(2, 4))]
    torch.testing.assert_close(torch.stack(halves).mean(), loss(rows, Targets(labels))[0])


def test_weights_and_mixed_labels_apply_to_auxiliary_heads() -> None:
    targets = Targets(torch.tensor([0]), torch.tensor([1]), 0.3)
    loss = Loss(0.1, torch.tensor([2.0, 1.0]))
    found, _ = loss(InceptionOutputs(MAIN, FIRST), targets)
    torch.testing.assert_close(found, loss(MAIN, targets)[0] + 0.4 * loss(FIRST, targets)[0])


@pytest.mark.parametrize(
    ("logits_BK", "problem"),
    [
        (torch.zeros(2, 7, requires_grad=True), "the model returns torch.float32 of 2 × 7 for 2 images and 3 classes"),
        (torch.zeros(2, 2, requires_grad=True), "the model returns torch.float32 of 2 × 2 for 2 images and 3 classes"),
        (torch.zeros(2, 1, 3, requires_grad=True), "torch.float32 of 2 × 1 × 3"),
        (torch.zeros((), requires_grad=True), "torch.float32 of one number"),
        (torch.zeros(2, 3, dtype=torch.bool), "torch.bool of 2 × 3"),
        (torch.zeros(2, 3), "the logits of the model do not depend on weights that train"),
    ],
)
def test_outputs_that_are_no_logits_of_these_classes_are_rejected(logits_BK: Tensor, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Loss(classes=3)(logits_BK, Targets(torch.tensor([0, 1])))
