"""`accel_train compare` puts runs side by side."""

import shutil

from helpers.histories import ended, epoch, progress, write_run
from helpers.runner import Runner
from PIL import Image

from accel_train.events import Event


def history(accuracy: float, loss: float = 1.5) -> tuple[Event, ...]:
    first = progress(5), progress(10, local_loss=loss), epoch(1, val_accuracy=accuracy / 2)
    return *first, epoch(2, val_accuracy=accuracy), ended(seconds=1800.0)


def test_differences_are_printed_side_by_side(run: Runner) -> None:
    write_run(run.folder / "a", *history(0.75), seed=1, output="a", workers="1")
    write_run(run.folder / "b[x]", *history(0.875, loss=2.5), seed=2, output="b", workers="4")
    compared = run("compare", "a", "b[x]", "--png", "c.png", "--price-per-hour", "2", "--price-per-hour", "3")
    assert (compared.code, compared.err) == (0, "")
    lines = compared.out.splitlines()
    assert lines[:2] == ["A  a", "B  b[x]"]
    cells = [line.split() for line in lines]
    for expected in (
        ["best", "accuracy", "0.7500", "0.8750"],
        ["cost", "1.00", "1.50"],
        ["seed", "1", "2"],
        ["workers", "1", "4"],
    ):
        assert expected in cells
    headings = [line.partition("  ")[0] for line in lines if line.startswith("options that")]
    assert headings == ["options that differ", "options that only place a run"]
    assert "validation accuracy by epoch" in lines
    write_run(run.folder / "c", *history(0.75), lr=0.2, max_lr=0.1)
    for name, lr, origin in (("a", 0.1, "default for cnn"), ("c", 0.2, "flag")):
        text = f"lr: {lr}  # {origin}\nmax_lr: {lr / 2}  # default for cnn\n"
        (run.folder / name / "config.yaml").write_text(text)
    tables = [line.split()[0] for line in run("compare", "a", "c").out.splitlines() if line]
    assert tables.index("options") < tables.index("lr") < tables.index("defaults") < tables.index("max_lr")
    assert "A and B: equal up to update 5, first differ at update 10: loss 1.5 and 2.5" in lines
    missing = "a has no predictions.csv; to write it: accel_train evaluate a --predictions a/predictions.csv"
    assert lines[-3:] == [f"A and B: {missing}", "c.png: losses and accuracies", "next: accel_train report 'b[x]'"]
    with Image.open(run.folder / "c.png") as plot:
        assert plot.width > plot.height > 100


def test_update_at_which_equal_runs_part_is_to_be_replayed(run: Runner) -> None:
    write_run(run.folder / "a", *history(0.75), workers="1")
    write_run(run.folder / "b", *history(0.75, loss=2.5), workers="4")
    assert run("compare", "a", "b").out.endswith("\nnext: accel_train replay b --update 10\n")


def test_record_holds_everything(run: Runner) -> None:
    write_run(run.folder / "a", *history(0.75), seed=1)
    write_run(run.folder / "b", *history(0.75, loss=float("nan")), seed=1)
    shutil.copytree(run.folder / "a", run.folder / "c")
    (record,) = run("compare", "a", "b", "c", "--json").records
    assert [one["best_val_accuracy"] for one in record["runs"]] == [0.75, 0.75, 0.75]
    assert (record["options"], record["surroundings"]) == ({}, {})
    differing, same = (each["parting"] for each in record["against_first"])
    assert (differing["equal_until"], differing["differs_at"], differing["quantity"]) == (5, 10, "loss")
    assert differing["losses"] == [1.5, None]
    assert (same["equal_until"], same["differs_at"]) == (10, None)


def test_what_cannot_be_compared_is_refused(run: Runner) -> None:
    write_run(run.folder / "a")
    for words, error, hint in (
        (("a",), "1 run given", "give 2 to 26 folders of runs, such as runs/*"),
        (("a", "b"), "b does not exist", "give the folder of a run: accel_train runs lists those under runs/"),
        (("a", "a", "--price-per-hour", "-1"), "--price-per-hour -1 is no price", "give a number from 0"),
        (("a", "a", "a", *["--price-per-hour", "1"] * 2), "2 prices for 3 runs", "give --price-per-hour once, or once"),
        (("a", "./a"), "a is given twice", "give each run once"),
        (("a", "a", "--png", "no/c.png"), "--png no/c.png: there is no folder no", "make it, or give another --png"),
    ):
        refused = run("compare", *words)
        assert (refused.code, refused.out) == (2, ""), words
        assert refused.err.startswith(f"error: {error}\nhint: {hint}"), refused.err
