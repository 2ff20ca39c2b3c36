"""Reliability bins and the calibration error equal those of torchmetrics and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import multiclass_calibration_error

from accel_train.metrics.calibration import reliability


def random_probabilities(seed: int, classes: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Return probabilities_NK, some of them exactly 1, and labels_N."""
    generator = torch.Generator().manual_seed(seed)
    logits_NK = 3 * torch.randn(400, classes, generator=generator)
    logits_NK[:20, 0] += 200
    return logits_NK.softmax(dim=1), torch.randint(classes, (400,), generator=generator)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("bins", [15, 10, 1])
def test_ece_equals_torchmetrics(seed: int, bins: int) -> None:
    probabilities_NK, labels_N = random_probabilities(seed)
    confidences_N, predicted_N = probabilities_NK.max(dim=1)
    found = reliability(confidences_N.numpy(), (predicted_N == labels_N).numpy(), bins)
    expected = multiclass_calibration_error(probabilities_NK, labels_N, num_classes=6, n_bins=bins, norm="l1")
    assert found.ece == pytest.approx(expected.item(), abs=1e-6)
    assert found.images_M.sum() == 400


def test_bins_equal_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    confidences_N = generator.random(300)
    correct_N = generator.random(300) < confidences_N
    found = reliability(confidences_N, correct_N, bins=8)
    accuracies, confidences = calibration_curve(correct_N, confidences_N, n_bins=8)
    np.testing.assert_allclose(found.accuracies_M, accuracies, atol=1e-9)
    np.testing.assert_allclose(found.confidences_M, confidences, atol=1e-9)


def test_empty_bins_have_no_means_and_edges_belong_to_the_bin_above() -> None:
    found = reliability(np.array([0.0, 0.5, 1.0], dtype=np.float32), np.array([True, False, True]), bins=4)
    np.testing.assert_array_equal(found.edges, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(found.images_M, [1, 0, 1, 1])
    np.testing.assert_array_equal(found.confidences_M, [0, np.nan, 0.5, 1])
    np.testing.assert_array_equal(found.accuracies_M, [1, np.nan, 0, 1])
    assert found.ece == 0.5


def test_ece_of_no_images_is_0_and_that_of_a_diverged_model_is_undefined() -> None:
    assert reliability(np.zeros(0, dtype=np.float32), np.zeros(0, dtype=bool)).ece == 0
    assert np.isnan(reliability(np.array([np.nan, 0.5]), np.array([True, False])).ece)
