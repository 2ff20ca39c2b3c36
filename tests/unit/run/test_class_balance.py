"""Class weights are scikit-learn's; notes name the classes and their figures."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight
from torch import Tensor

from accel_train.config.options import ResolvedConfig, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.data.sources.base import Source, Subset
from accel_train.data.sources.memory import MemorySource
from accel_train.data.sources.user import ItemSource
from accel_train.errors import UserError
from accel_train.run.class_balance import balance_notes, balanced_draws, class_weights

CPU = torch.device("cpu")


def config(**given: Any) -> ResolvedConfig:
    return resolve(TrainConfig(data="my.data:birds", **given), {}, "module", 100, "fp32")[0]


def source(*counts: int) -> MemorySource:
    labels_N = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    return MemorySource(tuple("abcd"[: len(counts)]), torch.zeros(len(labels_N), 1, 1, 1), labels_N)


class Unlabelled:
    def __len__(self) -> int:
        return 3


UNLABELLED = ItemSource(("a", "b"), Unlabelled())


def weights(train: Source, dtype: torch.dtype = torch.float32) -> Tensor:
    found = class_weights(config(balance="weights"), train, CPU, dtype)
    assert found is not None
    assert found.dtype == dtype
    return found


@pytest.mark.parametrize("counts", [(5, 5), (1, 1000), (700, 20, 3, 33)])
def test_weights_are_those_of_scikit_learn(counts: tuple[int, ...]) -> None:
    train = source(*counts)
    expected = compute_class_weight("balanced", classes=np.arange(len(counts)), y=train.labels_N.numpy())
    assert weights(train, torch.float64).tolist() == pytest.approx(expected, rel=1e-6)
    assert weights(train)[train.labels_N].mean().item() == pytest.approx(1)


def test_class_without_images_has_no_weight() -> None:
    assert weights(source(6, 0, 2)).tolist() == pytest.approx([8 / 12, 0, 2])


def test_weights_are_those_of_the_images_that_are_used() -> None:
    assert weights(Subset(source(50, 50), np.array([0, 1, 2, 99]))).tolist() == pytest.approx([4 / 6, 2])


@pytest.mark.parametrize("balance", ["none", "sampling"])
def test_weights_must_be_asked_for(balance: str) -> None:
    assert class_weights(config(balance=balance), source(1, 9), CPU, torch.float32) is None


@pytest.mark.parametrize("balance", ["none", "weights"])
def test_sampling_must_be_asked_for(balance: str) -> None:
    assert balanced_draws(config(balance=balance), source(1, 9)) is None


def test_draws_are_those_of_seed_and_labels() -> None:
    draws = balanced_draws(config(balance="sampling", seed=3), source(1, 9))
    assert draws is not None
    assert (draws.seed, draws.labels_N.tolist()) == (3, [0] + [1] * 9)


@pytest.mark.parametrize("balance", ["weights", "sampling"])
def test_balance_needs_labels(balance: str) -> None:
    with pytest.raises(UserError, match=f"--balance {balance} needs the label of each training image") as caught:
        balance_notes(config(balance=balance), UNLABELLED)
    assert "which my.data:birds does not give" in caught.value.message
    assert caught.value.hint == "give the training data `labels`, a list of whole numbers"


@pytest.mark.parametrize("train", [source(10, 99), source(5, 5), UNLABELLED])
def test_classes_of_similar_size_are_not_noted(train: Source) -> None:
    assert balance_notes(config(), train) == ()


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [((1000, 100), "from 'b' (100) to 'a' (1,000)"), ((3, 50, 20), "from 'a' (3) to 'b' (50)"), ((9, 0), "'b' (0)")],
)
def test_classes_of_very_different_sizes_are_noted(counts: tuple[int, ...], sizes: str) -> None:
    (note,) = balance_notes(config(), source(*counts))
    assert note.startswith("classes differ in size, from ")
    assert sizes in note
    assert note.endswith("try --balance sampling or --balance weights")


@pytest.mark.parametrize("counts", [(10, 3, 31), (7, 7, 8), (1, 1, 1, 90)])
def test_number_of_different_images_is_that_of_the_first_epoch(counts: tuple[int, ...]) -> None:
    given, train = config(balance="sampling"), source(*counts)
    draws = balanced_draws(given, train)
    assert draws is not None
    different = len(np.unique(draws.sample_indices(0, len(train)) % len(train)))
    assert f" and {different} different ones: " in balance_notes(given, train)[0]


@pytest.mark.parametrize(
    ("given", "counts", "note"),
    [
        (
            {"balance": "weights"},
            (90, 10, 0),
            "--balance weights: the loss of an image of 'b' (10) counts 5 ×, of 'a' (90) 0.556 ×",
        ),
        (
            {"balance": "sampling"},
            (1190, 10),
            "--balance sampling: an epoch draws 1,200 images, 600 of each class and 610 different ones: each image "
            "of 'b' (10) 60 ×, of 'a' (1,190) 0.504 ×",
        ),
        (
            {"balance": "sampling", "repeated_augmentation": 3},
            (9, 2),
            "--balance sampling: an epoch draws 4 images, 2 of each class and 4 different ones: each image "
            "of 'b' (2) 1 ×, of 'a' (9) 0.222 ×",
        ),
    ],
)
def test_balance_is_described(given: dict[str, Any], counts: tuple[int, ...], note: str) -> None:
    assert balance_notes(config(**given), source(*counts)) == (note,)
