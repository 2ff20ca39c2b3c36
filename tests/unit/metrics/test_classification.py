"""Accuracies, intervals and scores of classes equal those of scikit-learn and torchmetrics."""

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn import metrics as sklearn
from torchmetrics.functional import classification as torchmetrics

from accel_train.metrics.classification import (
    ClassScores,
    Counts,
    balanced_accuracy,
    class_scores,
    confusion_matrix,
    most_confused,
    wilson,
)

CLASSES = 7


def uneven(seed: int) -> tuple[Counts, Counts]:
    """Return labels and predictions: class 2 has no images, class 5 is never predicted, class 6 neither."""
    generator = np.random.default_rng(seed)
    labels_N = generator.choice([0, 1, 3, 4, 5], size=500, p=[0.6, 0.25, 0.1, 0.04, 0.01])
    guessed_N = generator.choice([0, 1, 2, 3, 4], size=500)
    predicted_N = np.where((generator.random(500) < 0.6) & (labels_N != 5), labels_N, guessed_N)
    return labels_N.astype(np.int64), predicted_N.astype(np.int64)


@pytest.mark.parametrize("seed", range(3))
def test_confusion_matrix_equals_scikit_learn(seed: int) -> None:
    labels_N, predicted_N = uneven(seed)
    expected = sklearn.confusion_matrix(labels_N, predicted_N, labels=range(CLASSES))
    np.testing.assert_array_equal(confusion_matrix(labels_N, predicted_N, CLASSES), expected)


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_classes_equal_scikit_learn(seed: int) -> None:
    labels_N, predicted_N = uneven(seed)
    scores = class_scores(confusion_matrix(labels_N, predicted_N, CLASSES))
    precision, recall, f1, support = sklearn.precision_recall_fscore_support(
        labels_N, predicted_N, labels=range(CLASSES), zero_division=np.nan
    )
    np.testing.assert_allclose(scores.precision_K, precision, atol=1e-6)
    np.testing.assert_allclose(scores.recall_K, recall, atol=1e-6)
    np.testing.assert_allclose(scores.f1_K, f1, atol=1e-6)
    np.testing.assert_array_equal(scores.images_K, support)
    np.testing.assert_array_equal(scores.predicted_K, np.bincount(predicted_N, minlength=CLASSES))
    assert undefined(scores) == [[5, 6], [2, 6], [6]]


def undefined(scores: ClassScores) -> list[list[int]]:
    """Return the classes whose precision, recall and F1 are not defined."""
    return [np.flatnonzero(np.isnan(of)).tolist() for of in (scores.precision_K, scores.recall_K, scores.f1_K)]


@pytest.mark.parametrize("seed", range(3))
def test_scores_of_classes_equal_torchmetrics(seed: int) -> None:
    labels_N, predicted_N = uneven(seed)
    scores = class_scores(confusion_matrix(labels_N, predicted_N, CLASSES))
    tensors = torch.from_numpy(predicted_N), torch.from_numpy(labels_N), CLASSES
    for function, own in (
        (torchmetrics.multiclass_precision, scores.precision_K),
        (torchmetrics.multiclass_recall, scores.recall_K),
        (torchmetrics.multiclass_f1_score, scores.f1_K),
    ):
        found = function(*tensors, average="none").numpy()
        np.testing.assert_allclose(np.nan_to_num(own), found, atol=1e-6)  # which says 0 for what is not defined


@pytest.mark.parametrize("seed", range(3))
def test_balanced_accuracy_equals_scikit_learn(seed: int) -> None:
    labels_N, predicted_N = uneven(seed)
    seen_N = np.isin(predicted_N, labels_N)  # scikit-learn warns of predicted classes without images
    labels_N, predicted_N = labels_N[seen_N], predicted_N[seen_N]
    found = balanced_accuracy(confusion_matrix(labels_N, predicted_N, CLASSES))
    assert found == pytest.approx(sklearn.balanced_accuracy_score(labels_N, predicted_N), abs=1e-9)


def test_balanced_accuracy_of_no_images_is_undefined() -> None:
    assert np.isnan(balanced_accuracy(np.zeros((3, 3), dtype=np.int64)))


@pytest.mark.parametrize(("correct", "images"), [(0, 10), (10, 10), (1, 3), (81, 263), (9_260, 10_000)])
def test_wilson_intervals_equal_those_of_scipy(correct: int, images: int) -> None:
    expected = binomtest(correct, images).proportion_ci(0.95, "wilson")
    assert wilson(correct, images) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_interval_of_no_images_holds_everything() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_intervals_stay_between_0_and_1() -> None:
    for images in (1, 2, 7, 10, 49, 1000, 50_000):
        assert wilson(0, images)[0] == 0.0
        assert wilson(images, images)[1] == 1.0


def test_most_confused_pairs_come_first_and_equal_ones_in_the_order_of_classes() -> None:
    confusion_KK = np.array([[9, 0, 2], [5, 9, 0], [0, 2, 9]])
    assert most_confused(confusion_KK, 2) == [(1, 0, 5), (0, 2, 2)]
    assert most_confused(confusion_KK, 9) == [(1, 0, 5), (0, 2, 2), (2, 1, 2)]
    assert confusion_KK[0, 0] == 9
    assert most_confused(np.diag([3, 0, 2]), 5) == []
