"""Predictions are put in the order of the pictures; those that are not finite are flagged."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.descriptions import description

from accel_train.config.options import PredictConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.data.sampler import PADDING
from accel_train.data.sources.unlabelled import READABLE, UNREADABLE
from accel_train.data.worker_batches import Batch
from accel_train.errors import UserError
from accel_train.run.inference import StoredRun
from accel_train.run.predict import _NOT_FINITE, _batch_size, _check, _normalisation_note, _Rows


@pytest.mark.parametrize("most", [1, 2, 7, 64])
def test_batches_are_as_equal_as_can_be(most: int) -> None:
    for pictures in range(1, 200):
        size = _batch_size(pictures, most)
        batches = math.ceil(pictures / size)
        assert 1 <= size <= most
        assert batches == math.ceil(pictures / most)
        assert batches * size - pictures < batches


def stored(**changed: Any) -> StoredRun:
    config = resolve(TrainConfig(data="my.data:build"), {}, "module", 1000, "fp32")[0]
    return StoredRun(Path("run"), config, description(**changed), "mlp")


@pytest.mark.parametrize(("channels", "values"), [(2, (0.5, 0.5)), (4, (0.5,) * 4)])
def test_model_of_images_that_pictures_cannot_be_is_refused(channels: int, values: tuple[float, ...]) -> None:
    run = stored(channels=channels, data_channels=channels, mean=values, std=values)
    with pytest.raises(UserError, match=f"the images of run have {channels} channels, pictures have 1 or 3"):
        _check(run, PredictConfig())


def test_normalisation_by_the_users_code_is_noted() -> None:
    note = "my.data:build has normalised the images of run itself: pictures are only scaled to 0–1"
    assert _normalisation_note(stored(mean=(0.0,), std=(1.0,))) == [note]
    assert _normalisation_note(stored()) == []


def batch(*ids_and_states: tuple[int, int]) -> Batch:
    ids, states = zip(*ids_and_states, strict=True)
    return Batch(torch.empty(len(ids), 0, 0, 0), torch.tensor(states), torch.tensor(ids))


def test_rows_are_those_of_the_pictures_in_order() -> None:
    rows = _Rows(top_k=2)
    logits_BK = torch.tensor([[0.0, 2, 1], [0, 0, 0], [5, 0, math.nan]])
    rows.add(logits_BK, batch((2, READABLE), (3, UNREADABLE), (4, READABLE)))
    rows.add(torch.tensor([[1.0, 1, 0], [3, 0, math.inf], [0, 0, 0]]), batch((0, READABLE), (1, UNREADABLE), (-1, 1)))
    assert rows.ids_of(UNREADABLE) == [3, 1]
    assert rows.ids_of(_NOT_FINITE) == [4]
    best_NT, probabilities_NT = rows.gathered(None)
    assert best_NT.shape == probabilities_NT.shape == (5, 2)
    assert best_NT[[0, 2]].tolist() == [[0, 1], [1, 2]]  # equal ones in the order of the classes
    assert probabilities_NT[2].tolist() == pytest.approx([0.66524, 0.24473], abs=1e-5)
    assert PADDING == -1
