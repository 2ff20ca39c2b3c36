"""Rows of predictions: the same as the sums count, in the order of the images, without what pads a batch."""

import numpy as np
import pytest
import torch
from sklearn.metrics import top_k_accuracy_score
from torch import Tensor
from torchmetrics.functional.classification import multiclass_accuracy

from accel_train.data.sampler import PADDING
from accel_train.data.worker_batches import Batch
from accel_train.metrics.predictions import Predictions
from accel_train.training.metrics import Sums, means
from accel_train.training.predictions import PredictionRows

CLASSES = tuple("abcdefgh")


def batch(ids: list[int], labels: list[int]) -> Batch:
    return Batch(torch.empty(0), torch.tensor(labels), torch.tensor(ids))


def gathered(*added: tuple[Tensor | None, Batch], images: int) -> Predictions:
    rows = PredictionRows()
    for logits_BK, one in added:
        rows.add(logits_BK, one)
    return rows.gathered(None, CLASSES, [f"{number}.png" for number in range(images)])


def test_rows_have_probabilities_and_ranks_in_the_order_of_the_images() -> None:
    probabilities_BK = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.3, 0.5, 0.2]])
    logits_BK = torch.cat((probabilities_BK.log(), torch.full((3, 5), -torch.inf)), dim=1)
    found = gathered((logits_BK[:2], batch([2, 1], [1, 2])), (logits_BK[2:], batch([0], [0])), images=3)
    assert found.classes == CLASSES
    assert found.images == ("0.png", "1.png", "2.png")
    np.testing.assert_array_equal(found.labels_N, [0, 2, 1])
    np.testing.assert_array_equal(found.predicted_N, [1, 2, 0])
    np.testing.assert_allclose(found.confidences_N, [0.5, 0.7, 0.5], rtol=1e-6)
    np.testing.assert_allclose(found.label_probabilities_N, [0.3, 0.7, 0.3], rtol=1e-6)
    np.testing.assert_array_equal(found.label_ranks_N, [2, 1, 2])
    np.testing.assert_array_equal(found.correct_N, [False, True, False])


def test_padding_and_batches_of_other_processes_make_no_rows() -> None:
    logits_BK = torch.eye(8)
    added = (logits_BK[:3], batch([1, PADDING, 0], [1, 0, 2])), (None, batch([2, 3, PADDING], [0, 0, 0]))
    found = gathered(*added, images=2)
    np.testing.assert_array_equal(found.labels_N, [2, 1])
    np.testing.assert_array_equal(found.predicted_N, [2, 0])


@pytest.mark.parametrize("levels", [1, 2, 4, 1000])
@pytest.mark.parametrize("classes", [2, 5, 6, 8])
def test_hits_are_those_that_are_counted_even_among_equal_logits(levels: int, classes: int) -> None:
    generator = torch.Generator().manual_seed(levels)
    logits_BK = torch.randint(levels, (200, classes), generator=generator).float()
    labels_B = torch.randint(classes, (200,), generator=generator)
    sums = Sums(torch.device("cpu"), classes)
    sums.add_images(logits_BK, labels_B, torch.ones(200, dtype=torch.bool))
    counted = means(sums.tensor)
    found = gathered((logits_BK, batch(list(range(200)), labels_B.tolist())), images=200)
    assert found.correct_N.mean() == counted.accuracy
    assert (found.label_ranks_N <= 5).mean() == counted.top5
    np.testing.assert_array_equal(found.correct_N, found.predicted_N == found.labels_N)
    assert 1 <= found.label_ranks_N.min() <= found.label_ranks_N.max() <= classes


def test_ranks_without_equal_logits_are_places_in_the_sorted_row() -> None:
    logits_BK = torch.randn(50, 8, generator=torch.Generator().manual_seed(0))
    labels_B = torch.arange(50) % 8
    order_BK = logits_BK.argsort(dim=1, descending=True)
    expected_B = (order_BK == labels_B[:, None]).int().argmax(dim=1) + 1
    found = gathered((logits_BK, batch(list(range(50)), labels_B.tolist())), images=50)
    np.testing.assert_array_equal(found.label_ranks_N, expected_B)


@pytest.mark.parametrize("top", [1, 2, 5])
def test_top_k_accuracies_equal_scikit_learn_and_torchmetrics(top: int) -> None:
    generator = torch.Generator().manual_seed(top)
    logits_BK = torch.randn(300, 8, generator=generator)
    labels_B = torch.multinomial(
        torch.tensor([60.0, 20, 10, 5, 4, 1, 0, 0]), 300, replacement=True, generator=generator
    )
    found = gathered((logits_BK, batch(list(range(300)), labels_B.tolist())), images=300)
    accuracy = (found.label_ranks_N <= top).mean()
    probabilities_BK = logits_BK.softmax(dim=1)
    assert accuracy == pytest.approx(top_k_accuracy_score(labels_B, probabilities_BK, k=top, labels=range(8)), abs=1e-9)
    of_torchmetrics = multiclass_accuracy(probabilities_BK, labels_B, num_classes=8, top_k=top, average="micro")
    assert accuracy == pytest.approx(of_torchmetrics.item(), abs=1e-6)
