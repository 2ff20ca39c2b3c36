"""Every rank has a line every epoch: its own mean, images and speed, and a hash of its weights."""

import re
from pathlib import Path
from typing import Any

import pytest
from helpers.marks import slow
from helpers.runner import Ended, Runner, read_metrics

OPTIONS = ("--data", "digits", "--model", "cnn", "--global-batch-size", "64", "--batch-size", "16", "--epochs", "2")
WORDS = ("train", *OPTIONS, "--limit", "512", "--device", "cpu", "--threads", "1")
LINE = re.compile(
    r"\[rank (?P<rank>\d)/(?P<count>\d) cpu\] epoch (?P<epoch>\d)/2  loss (?P<loss>\d\.\d{4}) over "
    r"(?P<images>[\d,]+) images  [\d,.]+ images/s  (?P<kind>weights|shard) (?P<hash>[0-9a-f]{8})"
)


def train(run: Runner, *words: str, **options: Any) -> Ended:
    ended = run(*WORDS, *words, **options)
    assert ended.code == 0, ended.err
    return ended


def rank_lines(out: str) -> list[re.Match[str]]:
    """Return the lines of the ranks, and check that each comes right before that of its epoch."""
    found = []
    lines = out.splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"epoch (\d)/2 ", line):
            own = []
            while rank := LINE.fullmatch(lines[number - len(own) - 1]):
                own.insert(0, rank)
            assert {rank["epoch"] for rank in own} <= {match[1]}
            found += own
    assert len(found) == len(re.findall(r"^\[rank \d/\d cpu\] epoch", out, re.MULTILINE))
    return found


@pytest.mark.parametrize("processes", [2, slow(4)])
def test_lines_come_by_rank_before_the_row_of_the_epoch(run: Runner, processes: int) -> None:
    ended = train(run, "--output", "out", processes=processes)

    assert ended.err == ""
    lines = rank_lines(ended.out)
    every = [(str(epoch), str(rank)) for epoch in (1, 2) for rank in range(processes)]
    assert [(line["epoch"], line["rank"]) for line in lines] == every
    assert {(line["count"], line["kind"], line["images"]) for line in lines} == {
        (str(processes), "weights", str(512 // processes))
    }
    records, epochs = (read_metrics(run.folder / "out", kind) for kind in ("epoch_by_rank", "epoch"))
    assert [record["update"] for record in records] == [record["update"] for record in epochs] == [8, 16]
    for record, epoch in zip(records, epochs, strict=True):
        ranks = record["ranks"]
        assert len({rank["weights"] for rank in ranks}) == 1
        assert len({rank["loss"] for rank in ranks}) == processes  # each its own
        assert sum(rank["loss"] * rank["images"] for rank in ranks) / 512 == pytest.approx(epoch["train_loss"])
        shown = [line for line in lines if line["epoch"] == str(record["epoch"])]
        assert [line["loss"] for line in shown] == [f"{rank['loss']:.4f}" for rank in ranks]
        assert {line["hash"] for line in shown} == {ranks[0]["weights"][:8]}
    for rank in range(processes):
        log = (run.folder / "out" / "log" / f"rank_{rank}.log").read_text()
        own = [line[0].partition("] ")[2] for line in lines if line["rank"] == str(rank)]
        assert re.findall(r"(epoch \d/2  loss .*)$", log, re.MULTILINE) == own
        assert re.search(r"[+]\d\d:\d\d running on cpu, gloo, host \S+, process \d+, 1 thread$", log, re.MULTILINE)


def test_each_process_is_named_at_the_start(run: Runner) -> None:
    ended = train(run, "--json", "--output", "out", processes=2)

    (started,) = (record for record in ended.records if record["kind"] == "ranks")
    assert "time" in started
    assert len({rank["pid"] for rank in started["ranks"]}) == 2
    assert re.findall(r"^\[rank (\d)/2 cpu\] gloo, host \S+, process (\d+), 1 thread$", ended.err, re.MULTILINE) == [
        (str(rank), str(own["pid"])) for rank, own in enumerate(started["ranks"])
    ]


def test_hash_is_that_of_the_weights_and_does_not_depend_on_processes(run: Runner) -> None:
    hashes = []
    for processes in (1, 2):
        ended = train(run, "--exact", "--output", f"out{processes}", processes=processes)
        records = read_metrics(run.folder / f"out{processes}", "epoch_by_rank")
        hashes.append([rank["weights"] for record in records for rank in record["ranks"][:1]])
        assert bool(rank_lines(ended.out)) == (processes > 1)  # one alone would repeat the row of the epoch
    assert hashes[0] == hashes[1]
    assert len(set(hashes[0])) == 2


def test_rank_lines_can_be_left_out(run: Runner) -> None:
    ended = train(run, "--rank-lines", "none", "--output", "out", processes=2)
    assert "[rank" not in ended.out
    assert read_metrics(run.folder / "out", "epoch_by_rank") == []
    assert len(re.findall(r"^epoch \d/2 ", ended.out, re.MULTILINE)) == 2


def test_ranks_of_a_resumed_run_count_their_images_since(run: Runner) -> None:
    """The sums of an epoch are stored over all processes: what each rank had is not known any more."""
    train(run, "--save-every", "5updates", "--keep", "9", "--output", "out", processes=2)
    checkpoint = run.folder / "out/checkpoints/update_000005"
    ended = train(run, "--resume", str(checkpoint), "--rank-lines", "epoch", "--output", "again", processes=2)
    assert "resumed at epoch 1 of 2, update 5" in ended.out.splitlines()
    assert [line["images"] for line in rank_lines(ended.out)] == [*["96"] * 2, *["256"] * 2]
    before, after = (read_metrics(run.folder / name, "epoch") for name in ("out", "again"))
    assert [epoch["train_loss"] for epoch in before] == [epoch["train_loss"] for epoch in after]  # of the whole epoch
    weights = [[rank["weights"] for rank in ranks_of(run.folder / name)] for name in ("out", "again")]
    assert weights[0] == weights[1]


def ranks_of(folder: Path) -> list[dict[str, Any]]:
    return [rank for record in read_metrics(folder, "epoch_by_rank") for rank in record["ranks"]]


def test_shards_are_named_so(run: Runner) -> None:
    ended = train(run, "--strategy", "fsdp2", "--output", "out", processes=2)
    assert {line["kind"] for line in rank_lines(ended.out)} == {"shard"}
    assert all(rank["sharded"] for rank in ranks_of(run.folder / "out"))
    assert len({rank["weights"] for rank in ranks_of(run.folder / "out")}) == 4
