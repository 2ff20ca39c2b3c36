"""Tables show as many columns as fit."""

from accel_train.cli.table import Column, table_lines, terminal_width

COLUMNS = (
    Column("run", ["a", "猫猫"], 3, left=True),
    Column("accuracy", ["0.5", "-"], 2),
    Column("note", ["x\x1b", ""], 1, left=True),
    Column("empty", ["", ""], 9),
)


def test_all_columns_of_a_wide_table_are_aligned_by_the_width_of_their_letters() -> None:
    assert list(table_lines(COLUMNS, 80)) == [
        "run   accuracy  note",
        "a          0.5  x\\x1b",
        "猫猫         -",
    ]


def test_least_important_columns_are_left_out_of_a_narrow_table() -> None:
    assert list(table_lines(COLUMNS, 20)) == ["run   accuracy", "a          0.5", "猫猫         -"]
    assert list(table_lines(COLUMNS, 5)) == ["run", "a", "猫猫"]


def test_file_gets_all_columns() -> None:
    wide = [Column("a", ["x" * 500]), Column("b", ["y"])]
    assert list(table_lines(wide, terminal_width())) == ["a".rjust(500) + "  b", "x" * 500 + "  y"]
