"""`--profile` reports where the time goes and changes no result."""

import gzip
import json

import pytest
from helpers.runner import Runner, read_metrics

RUN = ("train", "--epochs", "1", "--global-batch-size", "64", "--batch-size", "16", "--device", "cpu", "--quiet")
SLOW_ON_RANK_1 = """
import os, time
from torch import nn

class Slow(nn.Sequential):
    def forward(self, images):
        if self.training and os.environ["RANK"] == "1":
            time.sleep(0.05)
        return super().forward(images)

def net(classes):
    return Slow(nn.Flatten(), nn.Linear(64, classes))
"""


@pytest.mark.parametrize("processes", [1, 2])
def test_profiling_does_not_change_the_weights(run: Runner, processes: int) -> None:
    for name, options in (("plain", ()), ("profiled", ("--profile",))):
        ended = run(*RUN, "--output", name, *options, processes=processes)
        assert ended.code == 0, ended.err
    plain, profiled = (run.folder / name for name in ("plain", "profiled"))
    assert (plain / "model.safetensors").read_bytes() == (profiled / "model.safetensors").read_bytes()
    assert not (plain / "profile").exists()
    (found,) = read_metrics(profiled, "profile")
    assert (found["first_update"], found["last_update"], len(found["ranks"])) == (11, 20, processes)
    for rank, times in enumerate(found["ranks"]):
        assert min(times.values()) >= 0
        assert min(times["forward"], times["backward"], times["optimizer"]) > 0
        assert (times["communication"] > 0) == (processes > 1)
        with gzip.open(profiled / "profile" / f"rank_{rank}.json.gz") as trace:
            names = [event.get("name") for event in json.load(trace)["traceEvents"]]
        assert names.count("forward") == 10 * 4 // processes


def test_slowest_rank_is_named(run: Runner) -> None:
    (run.folder / "slow.py").write_text(SLOW_ON_RANK_1)
    ended = run(*RUN[:-1], "--model", "slow:net", "--profile", "--output", "out", processes=2)
    assert ended.code == 0, ended.err
    assert "slowest: rank 1, " in ended.out
    (found,) = read_metrics(run.folder / "out", "profile")
    assert found["slowest_rank"] == 1
    waiting, slow = found["ranks"]
    assert slow["forward"] > 100 > waiting["forward"]  # two micro-batches
    assert waiting["communication"] > 50


def test_too_few_updates_left_to_profile_are_reported(run: Runner) -> None:
    words = (*RUN[:-1], "--output", "out")
    assert run(*words).code == 0
    again = run(*words, "--profile")
    assert again.code == 0, again.err
    assert "note: --profile: nothing was profiled: fewer than 20 updates were left" in again.out
