"""`accel_train runs` lists runs in any state."""

import sys

from helpers.histories import ended, epoch, write_run
from helpers.runner import Runner

from accel_train.system.folder_lock import FolderLock


def test_runs_are_listed_with_their_states(run: Runner) -> None:
    runs = run.folder / "runs"
    write_run(runs / "one", epoch(1, val_accuracy=0.5), epoch(2, val_accuracy=0.25, best=False), ended())
    write_run(runs / "two", epoch(1, val_accuracy=0.75), weights=False)
    write_run(runs / "now", weights=False)
    damaged = write_run(runs / "broken\x1b")
    (damaged / "metrics.jsonl").write_text("{\n")
    lock = FolderLock(runs / "now")
    lock.acquire()
    try:
        listed = run("runs", "--sort", "accuracy")
    finally:
        lock.release()
    assert (listed.code, listed.err) == (0, "")
    heading, *rows = [line.split() for line in listed.out.splitlines()]
    assert heading[:6] == ["run", "state", "best", "accuracy", "epochs", "val"]
    assert [row[:4] for row in rows[:4]] == [
        ["runs/two", "unfinished", "0.7500", "1/2"],
        ["runs/one", "finished", "0.5000", "2/2"],
        ["runs/broken\\x1b", "damaged", "-", "0/?"],
        ["runs/now", "running", "-", "0/2"],
    ]
    assert listed.out.splitlines()[5:] == [
        "'runs/broken\\x1b': line 1 of metrics.jsonl is damaged: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1)",
        "1 run is unfinished; to continue: accel_train train --resume runs/two",
        "next: accel_train compare runs/two runs/one",
    ]


def test_records_are_json_lines_in_the_order_asked_for(run: Runner) -> None:
    write_run(run.folder / "all" / "a", epoch(1, val_loss=float("nan")))
    write_run(run.folder / "all" / "b", epoch(1, val_loss=0.25))
    write_run(run.folder / "all" / "c", epoch(1, val_loss=0.125))
    listed = run("runs", "all", "--sort", "loss", "--json")
    assert [(one["run_folder"], one["val_loss"]) for one in listed.records] == [
        ("all/c", 0.125),
        ("all/b", 0.25),
        ("all/a", None),
    ]
    (alone,) = run("runs", "all/b", "--json").records
    assert alone == listed.records[1]


def test_folder_without_runs_is_refused(run: Runner) -> None:
    for words, error, hint in (
        ((), "runs: there are no runs yet", "give the folder that holds your run folders"),
        (("here",), "here holds no runs", "give the folder that holds your run folders"),
        (("file",), "file: Not a directory", "give the folder that holds your run folders"),
        (("--sort", "x"), "--sort x is unknown", "choose among began, name, accuracy, "),
    ):
        (run.folder / "here").mkdir(exist_ok=True)
        (run.folder / "file").touch()
        refused = run("runs", *words)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err.startswith(f"error: {error}\nhint: {hint}")


def test_output_that_cannot_be_written_is_an_error(run: Runner) -> None:
    write_run(run.folder / "runs" / "a")
    ended = run.program(["sh", "-c", f"{sys.executable} -m accel_train runs > /dev/full"])
    assert ended.code == 2
    assert ended.err.startswith("error: "), ended.err
    assert "No space left on device" in ended.err
