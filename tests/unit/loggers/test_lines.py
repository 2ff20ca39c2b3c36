"""Events as lines of text."""

from dataclasses import replace

import pytest
from helpers.run_events import RANKS, STARTED, epoch_by_rank, epoch_end, started

from accel_train.events import EpochByRank, RankEpoch, RanksStarted, RankStart, Resumed, Stopped
from accel_train.loggers.lines import epoch_line, rank_lines, resumed_line, shows_balanced, stopped_line

ALONE = EpochByRank(1, 22, epoch_by_rank(1).ranks[:1])


def on_gpu(*ranks: RankEpoch) -> EpochByRank:
    return EpochByRank(3, 186, tuple(replace(own, device=f"cuda:{rank}") for rank, own in enumerate(ranks)))


def test_each_rank_has_a_line_with_its_own_numbers() -> None:
    first, second = epoch_by_rank(1).ranks
    event = on_gpu(replace(first, images=30_000), replace(second, images=1, images_per_second=0.52))
    assert rank_lines(started(epochs=20), event) == [
        "[rank 0/2 cuda:0] epoch 3/20  loss 0.4000 over 30,000 images  1,456 images/s  weights 8f3a19c2",
        "[rank 1/2 cuda:1] epoch 3/20  loss 0.4246 over 1 image  0.5 images/s  weights 8f3a19c2",
    ]


def test_rank_that_differs_shows_another_hash() -> None:
    first, second = epoch_by_rank(1).ranks
    lines = rank_lines(STARTED, on_gpu(first, replace(second, weights="0000000000000001")))
    assert [line.split()[-1] for line in lines] == ["8f3a19c2", "00000000"]


def test_hash_of_a_shard_is_not_taken_for_that_of_the_weights() -> None:
    lines = rank_lines(STARTED, on_gpu(*(replace(own, sharded=True) for own in epoch_by_rank(1).ranks)))
    assert all(line.endswith("  shard 8f3a19c2") for line in lines)
    assert not any("weights" in line for line in lines)


def test_rank_that_only_validated_shows_no_mean() -> None:
    idle = [replace(own, loss=None, images=0, images_per_second=0.0) for own in epoch_by_rank(1).ranks]
    assert rank_lines(STARTED, EpochByRank(2, 44, tuple(idle)))[0] == (
        "[rank 0/2 cpu] epoch 2/2  no images trained since the run resumed  weights 8f3a19c2"
    )
    narrow = rank_lines(STARTED, EpochByRank(2, 44, tuple(idle)), 60)
    assert narrow[0] == "[rank 0/2 cpu] epoch 2/2  no images  weights 8f3a19c2"


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, "[rank 0/2 cpu] epoch 1/2  loss 0.4000 over 704 images  1,456 images/s  weights 8f3a19c2"),
        (87, "[rank 0/2 cpu] epoch 1/2  loss 0.4000 over 704 images  1,456 images/s  weights 8f3a19c2"),
        (86, "[rank 0/2 cpu] epoch 1/2  loss 0.4000 over 704 images  weights 8f3a19c2"),
        (71, "[rank 0/2 cpu] epoch 1/2  loss 0.4000 over 704 images  weights 8f3a19c2"),
        (70, "[rank 0/2 cpu] epoch 1/2  loss 0.4000  weights 8f3a19c2"),
        (20, "[rank 0/2 cpu] epoch 1/2  loss 0.4000  weights 8f3a19c2"),
    ],
)
def test_narrow_terminal_drops_parts_of_a_rank_line(width: int, line: str) -> None:
    assert rank_lines(STARTED, epoch_by_rank(1), width)[0] == line


@pytest.mark.parametrize("event", [RANKS, epoch_by_rank(1)])
def test_rank_lines_are_an_option_of_several_processes(event: RanksStarted | EpochByRank) -> None:
    assert len(rank_lines(STARTED, event)) == 2
    assert rank_lines(started(config={"rank_lines": "none"}), event) == []
    assert rank_lines(STARTED, replace(event, ranks=event.ranks[:1])) == []


def test_start_of_a_rank_names_device_backend_host_and_process() -> None:
    ranks = RanksStarted((RankStart("cuda:0", "node1", 4711, 8), RankStart("cuda:1", "node2", 512, 1)))
    assert rank_lines(started(backend="nccl"), ranks) == [
        "[rank 0/2 cuda:0] nccl, host node1, process 4711, 8 threads",
        "[rank 1/2 cuda:1] nccl, host node2, process 512, 1 thread",
    ]


def test_resumed_run_tells_epoch_and_update() -> None:
    assert resumed_line(started(epochs=5), Resumed(3, 186, 12.5)) == "resumed at epoch 3 of 5, update 186"
    assert resumed_line(started(epochs=1200), Resumed(1000, 62_000, 1.0)) == (
        "resumed at epoch 1,000 of 1,200, update 62,000"
    )


@pytest.mark.parametrize(
    ("resume", "command", "advice"),
    [
        ("auto", "accel_train train --output 'my runs/1'", "to resume: accel_train train --output 'my runs/1'"),
        ("auto", None, "run the same command again to resume"),
        ("my runs/1/", "accel_train train --resume 'my runs/1/'", "to resume: accel_train train --resume 'my runs/1/'"),
        (
            "never",
            "accel_train train --resume never",
            "to resume: accel_train train --resume never --resume 'my runs/1' --output 'my runs/1'",
        ),
        ("runs/other", None, "run the same command again with --resume 'my runs/1' --output 'my runs/1' to resume"),
    ],
)
def test_stopped_run_tells_how_to_resume(resume: str, command: str | None, advice: str) -> None:
    begun = started(run_folder="my runs/1", config={"resume": resume})
    line = stopped_line(begun, Stopped("SIGTERM", 1437, 143), command)
    assert line == f"stopped by SIGTERM after update 1,437 (saved); {advice}"


def test_epoch_line_shows_the_average_only_if_there_is_one() -> None:
    end = replace(epoch_end(1), seconds=200.0, best=False)
    line = "epoch 1/2  train loss 0.4123  val loss 0.2780  val accuracy 0.9031  lr 0.05  2,912 images/s  3 min 20 s"
    assert epoch_line(STARTED, end) == line
    assert epoch_line(STARTED, replace(end, ema_val_accuracy=0.91, best=True)) == f"{line}  ema 0.9100  best"


@pytest.mark.parametrize(
    ("counts", "balance", "shown"),
    [
        ([36] * 10, "none", False),
        ([36, 71], "none", False),
        ([36, 72], "none", True),
        (None, "none", False),
        ([36] * 10, "weights", True),
        (None, "sampling", True),
    ],
)
def test_balanced_accuracy_is_shown_with_balance_or_for_classes_of_different_sizes(
    counts: list[int] | None, balance: str, shown: bool
) -> None:
    val = {"images": 360, "counts": counts, "fingerprint": None}
    contents = {**STARTED.data.contents, "splits": {**STARTED.data.contents["splits"], "val": val}}
    begun = started({"balance": balance}, contents=contents)
    assert shows_balanced(begun) == shown
    line = epoch_line(begun, replace(epoch_end(1), val_balanced_accuracy=0.75))
    assert ("val accuracy 0.9031  balanced 0.7500  lr" in line) == shown
