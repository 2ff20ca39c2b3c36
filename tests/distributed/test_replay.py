"""A replay has as many processes as the run; under --exact, any number gives the same gradient and weights."""

import pytest
from helpers.runner import Runner

WORDS = ("--data", "digits", "--model", "mlp", "--epochs", "1", "--log-every", "2", "--exact", "--batch-size", "16")


def test_run_of_two_processes_is_reproduced_on_two_and_on_one(run: Runner) -> None:
    trained = run("train", *WORDS, "--global-batch-size", "64", "--output", "run", processes=2)
    assert trained.code == 0, trained.err
    (two,) = run("replay", "run", "--update", "5", "--json").records
    assert (two["agrees"], two["last_update"], two["notes"]) == (True, 22, [])
    assert {check["quantity"] for check in two["checks"]} == {
        *("learning rate", "images", "loss", "gradient norm", "weights")
    }
    (one,) = run("replay", "run", "--update", "5", "--processes", "1", "--json").records
    assert one["agrees"] is True
    assert {check["quantity"] for check in one["checks"]} == {"learning rate", "gradient norm", "weights"}
    assert one["notes"][0] == "2 processes became 1: images and losses of a process are not compared"


@pytest.mark.slow
def test_launcher_decides_the_number_of_processes(run: Runner) -> None:
    trained = run("train", *WORDS, "--global-batch-size", "64", "--output", "run", processes=2)
    assert trained.code == 0, trained.err
    replayed = run("replay", "run", "--update", "5", "--json", launcher="torchrun", processes=1)
    assert replayed.code == 0, replayed.err
    (one,) = replayed.records
    assert one["notes"][0] == "2 processes became 1: images and losses of a process are not compared"
