"""Losses and accuracies are means over images, for any batches."""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score
from torch import Tensor
from torch.nn import functional

from accel_train.training import metrics
from accel_train.training.loss import Loss, Targets
from accel_train.training.metrics import Means, Sums, means

CPU = torch.device("cpu")


def logits(*rows: tuple[float, ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def with_loss(loss: float, images: int) -> tuple[Tensor, Tensor]:
    """Return logits of two classes and labels with this loss; images of loss 0 are classified correctly."""
    other = math.log(math.exp(loss) - 1) if loss else -200.0
    return torch.tensor([[0.0, other]] * images), torch.zeros(images, dtype=torch.int64)


def test_short_last_batch_is_weighted_by_its_images() -> None:
    """m02: losses 0, 0 and 9 in batches of 4, 4 and 1 have the mean 1, not 3."""
    sums = Sums(CPU, classes=2)
    for loss, images in ((0.0, 4), (0.0, 4), (9.0, 1)):
        sums.add_images(*with_loss(loss, images), torch.ones(images, dtype=torch.bool))
    found = means(sums.tensor)
    assert (found.loss, found.accuracy, found.images) == (pytest.approx(1.0, rel=1e-6), 8 / 9, 9)


@pytest.mark.parametrize("max_pending", [1, 45, 2**15])
def test_sums_do_not_depend_on_when_they_are_read(monkeypatch: pytest.MonkeyPatch, max_pending: int) -> None:
    monkeypatch.setattr(metrics, "_MAX_PENDING", max_pending)
    generator = torch.Generator().manual_seed(0)
    often, once, losses, right = Sums(CPU), Sums(CPU), [], 0
    for _ in range(21):
        rows, labels = torch.randn(5, 3, generator=generator), torch.randint(0, 3, (5,), generator=generator)
        loss = functional.cross_entropy(rows, labels)
        losses.append(5 * loss.item())
        right += sum(row.index(max(row)) == label for row, label in zip(rows.tolist(), labels.tolist(), strict=True))
        for sums in (often, once):
            sums.add_batch(loss, rows, labels)
        assert often.tensor.tolist() == [pytest.approx(sum(losses), abs=1e-6), right, 0, 5 * len(losses)]
    assert torch.equal(often.tensor, once.tensor)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("before", [0, 7, 8, 30])
def test_batches_before_first_nonfinite_loss_are_counted(
    monkeypatch: pytest.MonkeyPatch, before: int, loss: float
) -> None:
    monkeypatch.setattr(metrics, "_MAX_PENDING", 16)  # eight batches
    sums, (rows, labels) = Sums(CPU), with_loss(0.0, 1)
    for value in [1.0] * before + [loss, 2.0, -loss, 3.0]:
        sums.add_batch(torch.tensor(value), rows, labels)
    finite, batches = sums.take_finite()
    assert (int(finite), batches) == (before, before + 4)
    sums.load([0.0] * 4)
    sums.add_batch(torch.tensor(1.0), rows, labels)
    assert tuple(map(int, sums.take_finite())) == (1, 1)


def test_sums_since_load_are_those_of_this_process() -> None:
    sums, (rows, labels) = Sums(CPU), with_loss(0.0, 2)
    sums.load([7.0, 1.0, 0.0, 100.0])
    sums.add_batch(torch.tensor(0.5), rows, labels)
    assert sums.since_load.tolist() == [1.0, 2.0, 0.0, 2.0]
    assert sums.tensor.tolist() == [8.0, 3.0, 0.0, 102.0]
    sums.clear()
    assert sums.since_load.tolist() == sums.tensor.tolist() == [0.0] * 4
    sums.add_batch(torch.tensor(0.25), rows, labels)
    assert sums.since_load.tolist() == sums.tensor.tolist() == [0.5, 2.0, 0.0, 2.0]


def test_means_equal_hand_computation() -> None:
    sums = Sums(CPU, classes=7)
    rows = logits((7, 6, 5, 4, 3, 2, 1), (1, 2, 3, 4, 5, 6, 7), (7, 6, 5, 4, 3, 2, 1))
    sums.add_images(rows, torch.tensor([0, 2, 6]), torch.ones(3, dtype=torch.bool))
    losses = [math.log(sum(math.exp(-n) for n in range(7))) + distance for distance in (0, 4, 6)]
    assert means(sums.tensor) == Means(pytest.approx(sum(losses) / 3, rel=1e-6), 1 / 3, 2 / 3, 3, 1 / 3)


def test_padding_is_not_counted() -> None:
    padded, plain = Sums(CPU, classes=6), Sums(CPU, classes=6)
    rows, labels = torch.randn(4, 6, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 2, 3])
    padded.add_images(rows, labels, torch.tensor([True, True, False, False]))
    padded.add_images(rows, labels, torch.zeros(4, dtype=torch.bool))
    plain.add_images(rows[:2], labels[:2], torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(padded.tensor, plain.tensor)
    assert padded.tensor[3] == 2


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_top_5_of_at_most_5_classes_is_1(classes: int) -> None:
    """m03"""
    sums = Sums(CPU, classes)
    sums.add_images(torch.randn(8, classes), torch.zeros(8, dtype=torch.int64), torch.ones(8, dtype=torch.bool))
    assert means(sums.tensor).top5 == 1.0


def test_sums_over_processes_equal_those_of_one() -> None:
    rows, labels = torch.randn(12, 12), torch.arange(12) % 6
    single, *parts = (Sums(CPU, classes=12) for _ in range(3))
    single.add_images(rows, labels, torch.ones(12, dtype=torch.bool))
    for sums, start, end in ((parts[0], 0, 5), (parts[1], 5, 12)):
        sums.add_images(rows[start:end], labels[start:end], torch.ones(end - start, dtype=torch.bool))
    torch.testing.assert_close(parts[0].tensor + parts[1].tensor, single.tensor, rtol=1e-12, atol=0)


def test_count_of_many_images_is_exact() -> None:
    sums = Sums(CPU)
    sums.tensor[3] = 2.0**24
    sums.add_batch(torch.tensor(0.0), *with_loss(0.0, 1))
    assert sums.tensor[3] == 2**24 + 1


def test_summed_loss_keeps_no_graph() -> None:
    sums = Sums(CPU)
    rows = torch.zeros(2, 2, requires_grad=True)
    loss, logits_BK = Loss()(rows, Targets(torch.tensor([0, 1])))
    sums.add_batch(loss, logits_BK, torch.tensor([0, 1]))
    assert not sums.tensor.requires_grad
    assert means(sums.tensor).loss == pytest.approx(math.log(2), rel=1e-6)


@pytest.mark.parametrize("classes", [2, 5, 300])
def test_accuracies_equal_those_of_scikit_learn(classes: int) -> None:
    """Classes of very different sizes, one of them without images."""
    generator = torch.Generator().manual_seed(classes)
    labels = (torch.rand(999, generator=generator) ** 4 * classes).long()
    labels[labels == classes - 1] = 0
    rows = torch.randn(999, classes, generator=generator) + 2 * functional.one_hot(labels, classes)
    sums = Sums(CPU, classes)
    for part in (slice(700), slice(700, 999)):
        images = len(labels[part])
        padded_rows, padded_labels = torch.cat([rows[part], rows[:9]]), torch.cat([labels[part], labels[:9]])
        sums.add_images(padded_rows, padded_labels, torch.arange(images + 9) < images)
    found = means(sums.tensor)
    answers = rows.argmax(dim=1)
    assert found.images == 999
    assert found.accuracy == pytest.approx(accuracy_score(labels, answers), abs=1e-12)
    assert found.balanced_accuracy is not None
    expected = sum((answers[labels == k] == k).double().mean().item() for k in labels.unique()) / len(labels.unique())
    assert found.balanced_accuracy == pytest.approx(expected, abs=1e-12)
    present = np.isin(answers, labels)  # scikit-learn warns of answers that are no label of any image
    with nullcontext() if present.all() else pytest.warns(UserWarning, match="classes not in y_true"):
        assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(labels, answers), abs=1e-6)


def test_training_images_have_no_balanced_accuracy() -> None:
    sums = Sums(CPU)
    sums.add_batch(torch.tensor(0.5), *with_loss(0.0, 2))
    assert means(sums.tensor).balanced_accuracy is None
