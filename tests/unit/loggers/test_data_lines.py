"""Lines about classes and sizes."""

from accel_train.loggers.data_lines import class_table, size_lines


def test_class_table_has_a_column_for_each_split() -> None:
    assert list(class_table(("cat", "a\x1bdog"), {"train": [1200, 3], "val": [4, 0]})) == [
        "class     train  val",
        "cat       1,200    4",
        "a\\x1bdog      3    0",
    ]


def test_sizes_are_named_by_width_and_height() -> None:
    assert list(size_lines([(10, 2000), (30, 20), (20, 30)])) == [
        "width × height: 20 × 10 to 2,000 × 30 pixels, median 30 × 20"
    ]
    assert list(size_lines([])) == []
