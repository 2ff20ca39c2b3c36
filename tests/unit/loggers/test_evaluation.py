"""The result of an evaluation as text."""

from dataclasses import replace

from rich.cells import cell_len

from accel_train.events import ClassResult, Evaluated
from accel_train.loggers.evaluation import class_table, confusion_table, result_line, result_rows

FOUND = Evaluated(
    run_folder="runs/pets",
    weights="best",
    data="pets",
    split="val",
    images=30,
    classes=3,
    loss=0.5,
    accuracy=0.8,
    accuracy_interval=(0.62691, 0.90495),
    balanced_accuracy=0.6,
    top5=1.0,
    top5_interval=(0.88649, 1.0),
    ece=0.0512,
    mean_confidence=0.85125,
    per_class=(
        ClassResult("cat", 20, 22, 18, 18 / 22, 0.9, 36 / 42),
        ClassResult("dog", 10, 8, 6, 0.75, 0.6, 12 / 18),
        ClassResult("yak", 0, 0, 0, None, None, None),
    ),
    confusion=((18, 2, 0), (4, 6, 0), (0, 0, 0)),
    reliability=(),
    notes=(),
)


def test_line_has_loss_and_accuracies() -> None:
    expected = "runs/pets (best) on pets: 30 images, loss 0.5000, accuracy 0.8000, balanced accuracy 0.6000"
    assert result_line(FOUND) == expected
    same = replace(FOUND, balanced_accuracy=0.80001, split="test", images=1)
    assert result_line(same) == "runs/pets (best) on pets (test): 1 image, loss 0.5000, accuracy 0.8000"


def test_top_5_is_shown_for_more_than_ten_classes() -> None:
    many = replace(FOUND, classes=11, top5=0.95, top5_interval=(0.8, 0.99))
    assert result_line(many).endswith(", balanced accuracy 0.6000, top-5 accuracy 0.9500")
    assert result_rows(many)[0] == ("95 % interval", "accuracy 0.6269 to 0.9050, top-5 0.8000 to 0.9900")


def test_rows_have_interval_calibration_and_most_frequent_mistakes() -> None:
    assert result_rows(FOUND) == [
        ("95 % interval", "accuracy 0.6269 to 0.9050"),
        (
            "calibration",
            "error 0.0512 (ECE): predictions have a mean probability of 0.8512, their accuracy is 0.8000",
        ),
        ("confused", "6 of 30 images: dog → cat (4 of 10), cat → dog (2 of 20)"),
    ]


def test_only_the_most_frequent_mistakes_are_listed() -> None:
    matrix = tuple(tuple(0 if column == row else 10 - row for column in range(3)) for row in range(3))
    found = replace(FOUND, confusion=matrix)
    label, text = result_rows(found)[-1]
    assert label == "confused"
    assert text.startswith("54 of 30 images: cat → dog (10 of 20), cat → yak (10 of 20), dog → cat (9 of 10)")
    assert text.endswith("yak → cat (8 of 0) and 1 more pair")


def test_without_mistakes_nothing_is_confused() -> None:
    perfect = replace(FOUND, confusion=((20, 0, 0), (0, 10, 0), (0, 0, 0)))
    assert [label for label, _ in result_rows(perfect)] == ["95 % interval", "calibration"]


def test_class_table_has_a_dash_where_a_score_is_not_defined() -> None:
    assert class_table(FOUND) == [
        "class  images  precision  recall      F1",
        "cat        20     0.8182  0.9000  0.8571",
        "dog        10     0.7500  0.6000  0.6667",
        "yak         0          -       -       -",
    ]


def test_confusion_matrix_has_a_row_for_each_label() -> None:
    assert confusion_table(FOUND, 80) == [
        "label \\ prediction  cat  dog  yak",
        "cat                  18    2    .",
        "dog                   4    6    .",
        "yak                   .    .    .",
    ]


def test_confusion_matrix_that_does_not_fit_is_left_out() -> None:
    assert confusion_table(FOUND, 33) != []
    assert confusion_table(FOUND, 32) == []
    assert confusion_table(replace(FOUND, confusion=((20_000, 0, 0),) * 3), 38) == []


def test_names_are_shortened_and_aligned_by_the_columns_they_take() -> None:
    names = ("a" * 40, "猫" * 20, "esc\x1b[31m")
    found = replace(
        FOUND, per_class=tuple(replace(one, name=name) for one, name in zip(FOUND.per_class, names, strict=True))
    )
    table = class_table(found)
    assert table[1].startswith("a" * 29 + "…  ")
    assert table[2].startswith("猫" * 14 + "…")
    assert table[3].startswith("esc\\x1b[31m ")
    assert len({cell_len(line) for line in table}) == 1
    matrix = confusion_table(found, 60)
    assert len({cell_len(line) for line in matrix}) == 1
    assert matrix[0].split()[3:] == ["aaaaaaa…", "猫猫猫…", "esc\\x1b…"]
