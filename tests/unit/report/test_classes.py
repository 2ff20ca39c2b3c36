"""What the page shows of the classes follows from the confusion matrix."""

import numpy as np

from accel_train.report.classes import Pair, describe_classes, pooled_shares


def test_classes_are_sorted_by_f1_and_pairs_by_images() -> None:
    confusion = np.array([[8, 2, 0, 0], [1, 5, 4, 0], [0, 0, 10, 0], [0, 0, 0, 0]])
    found = describe_classes(["a", "b", "c", "none"], confusion)
    assert [row.name for row in found.rows] == ["b", "c", "a", "none"]
    assert [(row.recall, row.images) for row in found.rows] == [(0.5, 10), (1.0, 10), (0.8, 10), (None, 0)]
    assert (found.rows[0].precision, found.rows[-1].f1) == (5 / 7, None)
    assert found.pairs == (Pair("b", "c", 4, 10), Pair("a", "b", 2, 10), Pair("b", "a", 1, 10))
    assert found.matrix.names == ("a", "b", "c", "none")
    assert not found.matrix.is_excerpt
    first = found.matrix.rows[0]
    assert [(cell.images, cell.share, cell.is_correct) for cell in first[:3]] == [
        (8, 0.8, True),
        (2, 0.2, False),
        (0, 0.0, False),
    ]
    assert found.never_predicted == ()


def test_class_that_is_never_predicted_is_named() -> None:
    found = describe_classes(["a", "b"], np.array([[3, 0], [2, 0]]))
    assert found.never_predicted == ("b",)


def test_excerpt_has_the_most_confused_classes_and_the_rest() -> None:
    confusion = 10 * np.eye(30, dtype=np.int64)
    confusion[3, 17], confusion[17, 3], confusion[3, 29] = 5, 4, 1
    found = describe_classes([f"c{k}" for k in range(30)], confusion)
    assert found.matrix.is_excerpt
    assert found.matrix.names == ("c3", "c17", "c29")
    assert [cell.images for cell in found.matrix.rows[0]] == [10, 5, 1, 0]
    assert found.shown == 15
    assert [row.name for row in found.rows[:3]] == ["c3", "c17", "c29"]


def test_pooled_matrix_keeps_a_single_mistake() -> None:
    confusion = 4 * np.eye(1000, dtype=np.int64)
    confusion[400, 2] = 1
    pooled = pooled_shares(confusion, 200)
    assert pooled.shape == (200, 200)
    assert pooled[80, 0] == 0.2
    assert (pooled.diagonal() >= 0.8).all()
    assert np.count_nonzero(pooled) == 201
