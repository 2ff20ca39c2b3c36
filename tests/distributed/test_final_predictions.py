"""predictions.csv of a run is that of its exported weights, whatever the strategy that trained them."""

from pathlib import Path

import numpy as np
import pytest
from helpers.marks import slow
from helpers.runner import Runner

from accel_train.metrics.predictions import Predictions, read_predictions

WORDS = ("--data", "digits", "--limit", "256", "--epochs", "1", "--global-batch-size", "32", "--batch-size", "8")


def table(path: Path) -> Predictions:
    return read_predictions(path, tuple("0123456789"))


@pytest.mark.parametrize(
    "strategy",
    [
        ("--strategy", "ddp", "--ema", "100"),
        slow(("--strategy", "pipeline", "--pipeline-stages", "2")),
        slow(("--strategy", "fsdp2", "--ema", "100")),
    ],
)
def test_predictions_are_those_of_the_exported_weights(run: Runner, strategy: tuple[str, ...]) -> None:
    words = (*WORDS, *strategy, "--device", "cpu", "--output", "run", "--report")
    ended = run("train", *words, processes=2, CUDA_VISIBLE_DEVICES="")
    assert ended.code == 0, ended.err
    evaluated = run("evaluate", "run", "--device", "cpu", "--predictions", "p.csv")
    assert evaluated.code == 0, evaluated.err
    found, expected = table(run.folder / "run/predictions.csv"), table(run.folder / "p.csv")
    assert found.images == expected.images
    np.testing.assert_array_equal(found.labels_N, expected.labels_N)
    np.testing.assert_allclose(found.label_probabilities_N, expected.label_probabilities_N, rtol=1e-5)
    np.testing.assert_allclose(found.confidences_N, expected.confidences_N, rtol=1e-5)
    assert len(found) > 200
