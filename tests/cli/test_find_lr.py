"""`find-lr` tries rising learning rates on the run's own updates, and suggests one that trains."""

import math
import re
import shlex
from typing import Any

import pytest
from helpers.cli import assert_refused
from helpers.runner import Ended, Runner
from PIL import Image

pytestmark = pytest.mark.xdist_group("find_lr")  # the tests share runs

OPTIONS = ("--global-batch-size", "48", "--batch-size", "12", "--limit", "480", "--exact", "--device", "cpu")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(tmp_path_factory.mktemp("find_lr"))


@pytest.fixture(scope="module")
def plotted(place: Runner) -> Ended:
    ended = place("find-lr", *OPTIONS, "--png", "range.png")
    assert ended.code == 0, ended.err
    return ended


@pytest.fixture(scope="module")
def record(place: Runner) -> dict[str, Any]:
    """Return the result of the same test on two processes."""
    ended = place("find-lr", *OPTIONS, "--json", processes=2)
    assert ended.code == 0, ended.err
    (found,) = ended.records
    assert isinstance(found, dict)
    return found


def test_learning_rate_rises_by_one_factor_until_the_loss_diverges(record: dict[str, Any]) -> None:
    rates = [each["lr"] for each in record["tried"]]
    assert len(rates) < 100
    factor = (100 / 1e-3) ** (1 / 99)
    assert rates == pytest.approx([1e-4 * factor**n for n in range(len(rates))])  # cnn's usual rate is 0.1
    assert record["diverged_at"] == rates[-1]
    assert math.log(10) == pytest.approx(record["tried"][0]["loss"], abs=0.1)
    assert (record["kind"], record["limit"]) == ("find-lr", 0.05)
    assert (record["global_batch"], record["batch_size"], record["processes"]) == (48, 12, 2)


def test_suggestion_and_reason_are_the_same_on_two_processes(plotted: Ended, record: dict[str, Any]) -> None:
    lines = plotted.out.splitlines()
    assert lines[0] == "digits, cnn, sgd, 48 images per update"
    assert max(map(len, lines[:-1])) <= 80
    losses = [each["smoothed"] for each in record["tried"]]
    above = ["above 0.05, the limit for cnn with sgd: it may diverge; --lr 0.05 is safer"] * (record["lr"] > 0.05)
    assert lines[lines.index("plot: range.png") - 4 - len(above) : -2] == [
        f"the loss falls up to a learning rate of {record['falls_until']:.4g}, "
        f"from {losses[0]:.4f} to {min(losses):.4f}",
        f"it rises from {record['rises_from']:.4g} on",
        f"it diverges at {record['diverged_at']:.4g}",
        f"suggested peak for 48 images per update: {record['lr']:g}",
        *above,
    ]
    assert 0.01 <= record["lr"] <= 0.5


def test_printed_command_trains_with_the_suggestion(place: Runner, plotted: Ended, record: dict[str, Any]) -> None:
    label, _, command = plotted.out.splitlines()[-1].partition(": ")
    assert label == "next"
    program, *words = shlex.split(command)
    assert program == "accel_train"
    ended = place(*words, "--print-config")
    assert ended.code == 0, ended.err
    assert f"lr: {record['lr']}" in ended.out
    assert "global_batch_size: 48" in ended.out


def test_plot_is_written_and_no_run_folder(place: Runner, plotted: Ended, record: dict[str, Any]) -> None:
    assert plotted.out.splitlines()[-2] == "plot: range.png"
    with Image.open(place.folder / "range.png") as image:
        assert image.format == "PNG"
    assert [path.name for path in place.folder.iterdir() if path.name != "hf_home"] == ["range.png"]


def test_loss_that_does_not_fall_gives_exit_code_1(place: Runner) -> None:
    ended = place("find-lr", *OPTIONS, "--start-lr", "1e-9", "--end-lr", "1e-8", "--updates", "20")
    assert ended.code == 1
    *_, reason, remedy = ended.out.splitlines()
    assert reason.startswith("no suggestion: the loss ")
    assert reason.endswith(" in 20 updates")
    assert remedy == "try a higher rate: --end-lr 1e-06"


def test_notes_of_the_run_that_do_not_apply_to_the_test_are_left_out(run: Runner) -> None:
    (run.folder / "high.yaml").write_text("lr: 3\nlimit: 64\nbatch_size: 64\n")
    ended = run("find-lr", "--config", "high.yaml", "--device", "cpu")
    assert (ended.code, ended.err) == (1, "")  # few updates, and a rate above the limit, which the test replaces
    assert ended.out.splitlines()[-1] == (
        "it rises after too few updates: try --epochs 100 --updates 100 or --batch-size 32"
    )


def test_run_of_few_updates_is_refused(run: Runner) -> None:
    few = ("--limit", "96", "--epochs", "4", "--batch-size", "48")
    assert_refused(
        run("find-lr", *few), "20 updates are needed, and the run makes 8", "use --epochs 50, or a smaller batch"
    )
    assert_refused(
        run("find-lr", *few, "--updates", "30"),
        "--updates 30, but the run makes 8",
        "use --epochs 15, or a smaller batch",
    )


def test_rate_above_the_default_of_the_highest_is_refused(run: Runner) -> None:
    assert_refused(
        run("find-lr", "--limit", "960", "--start-lr", "20"),
        "--start-lr 20 is not below 10, the default of --end-lr",
        "add --end-lr 2000",
    )


def test_command_overrides_the_rule_of_a_file(run: Runner) -> None:
    (run.folder / "my options.yaml").write_text("limit: 480\nbatch_size: 48\nlr_scaling: sqrt\nmax_lr: 0.001\n")
    ended = run("find-lr", "--config", "my options.yaml", "--epochs", "12", "--device", "cpu")
    assert ended.code == 0, ended.err
    words = shlex.split(ended.out.splitlines()[-1].removeprefix("next: accel_train "))
    (lr,) = re.findall(r"suggested peak .*: (.*)", ended.out)
    assert words[:7] == ["train", "--config", "my options.yaml", "--epochs", "12", "--device", "cpu"]
    assert words[7:] == ["--lr", lr, "--lr-scaling", "linear", "--lr-base-batch", "48", "--max-lr", lr]
    shown = run(*words, "--dry-run")
    assert shown.code == 0, shown.err
    assert re.search(rf"peak.*\b{lr}\b|{lr} at 48", shown.out), shown.out


@pytest.mark.parametrize(
    ("option", "fix"),
    [
        ("--lr 0.1", "give --start-lr and --end-lr"),
        ("--max-lr 0.1", "give --end-lr"),
        ("--lr-scaling none", "leave it out: the suggestion is for the batch"),
        ("--lr-base-batch 64", "leave it out: the suggestion is for the batch"),
    ],
)
def test_rate_of_the_run_is_refused(run: Runner, option: str, fix: str) -> None:
    ended = run("find-lr", *option.split())
    assert ended.code == 2
    assert_refused(ended, f"{option} has no effect: find-lr tries rising rates, from --start-lr to --end-lr", fix)
