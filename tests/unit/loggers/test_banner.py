"""The first lines of a run: at most ten, with all that the user asked for."""

import io
from dataclasses import replace
from typing import Any

import pytest
from helpers.run_events import STARTED, started
from rich.console import Console

from accel_train.config.options import TrainConfig
from accel_train.events import HostRecord, RunStarted
from accel_train.loggers.banner import IN_ROWS, banner_rows, print_banner


def printed(run: RunStarted, width: int, *, verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    print_banner(Console(file=stream, width=width, force_terminal=True, color_system=None), run, verbose)
    return stream.getvalue().splitlines()


def with_counts(train: list[int] | None) -> RunStarted:
    contents = {"classes": list("abc"), "splits": {"train": {"counts": train}, "val": {"counts": None}}}
    return started(contents=contents, classes=3, data="photos", origin="", train_images=1437)


def test_tells_at_a_glance_what_runs() -> None:
    assert banner_rows(started(threads=4)) == [
        ("run", "runs/digits-1"),
        ("data", "digits: 1,437 training and 360 validation images, 10 classes of 141 to 144"),
        ("model", "cnn, 93,322 parameters, input 8 × 8"),
        ("devices", "2 processes × cpu, 4 threads each, fp32, ddp over gloo, started by accelerate launch"),
        ("batch", "32 per process × 2 processes × 1 accumulation = 64 per update"),
        ("learning rate", "0.2 at 256 → 0.05 at 64 (linear), sgd, weight decay 0.0005"),
        ("schedule", "cosine over 2 epochs of 22 updates = 44, warmup 22 updates"),
        ("augmentation", "light: shift by up to 1 pixel"),
    ]


def test_several_hosts_are_a_line_each() -> None:
    hosts = tuple(HostRecord(f"node{i}", (i,), ("cuda:0",), ("",), "eth0") for i in range(2))
    rows = banner_rows(started(hosts=hosts))
    assert rows[4:6] == [
        ("hosts", "host 0 (node0): rank 0, cuda:0, eth0"),
        ("", "host 1 (node1): rank 1, cuda:0, eth0"),
    ]


def test_is_at_most_ten_lines_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # Rich gives a dumb terminal 80 columns, whatever its width
    alone = started(world_size=1, local_world_size=1, threads=8, backend=None, launched_by="accel_train")
    assert len(printed(alone, 80)) <= 9
    asked = started({"label_smoothing": 0.1, "seed": 3, "keep": 5}, threads=1)
    assert len(printed(asked, 80, verbose=True)) > len(printed(asked, 120, verbose=True)) > 15
    for width in (80, 120, 200):
        assert len(printed(alone, width)) <= 10
    assert len(printed(asked, 120)) <= 11  # and how to use idle cores under accelerate launch
    assert max(map(len, printed(asked, 80))) <= 80


@pytest.mark.parametrize(
    ("train", "text"),
    [
        ([5, 1200, 232], "3 classes of 5 to 1,200"),
        ([5, 1200, 7], "3 classes"),  # --limit uses fewer images
        ([479, 479, 479], "3 classes"),
        (None, "3 classes"),
    ],
)
def test_names_the_smallest_and_largest_class_if_they_differ(train: list[int] | None, text: str) -> None:
    assert ("data", f"photos: 1,437 training and 360 validation images, {text}") in banner_rows(with_counts(train))


@pytest.mark.parametrize(("number", "text"), [(1, "1 other file ignored"), (1200, "1,200 other files ignored")])
def test_tells_which_files_are_no_pictures(number: int, text: str) -> None:
    assert dict(banner_rows(started(ignored_files=number)))["data"].endswith(f"; {text}")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"backend": None, "launched_by": "accel_train"}, "1 process × cpu, 1 thread, fp32"),
        ({"backend": None, "launched_by": "torchrun"}, "1 process × cpu, 1 thread, fp32, started by torchrun"),
        (
            {"backend": None, "launched_by": "accel_train", "device": "cuda:0", "precision": "bf16"},
            "1 process × cuda:0, bf16",
        ),
    ],
)
def test_names_one_process(changes: dict[str, Any], text: str) -> None:
    assert dict(banner_rows(started(world_size=1, **changes)))["devices"] == text


def test_threads_of_a_gpu_run_are_shown_if_they_were_asked_for() -> None:
    run = started({"threads": 3}, device="cuda:0", threads=3, world_size=1, backend=None, launched_by="accel_train")
    rows = dict(banner_rows(run))
    assert rows["devices"] == "1 process × cuda:0, 3 threads, fp32"
    assert "options" not in rows


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ({"seed": 0}, "--seed 0"),  # given, though it is the default
        ({"exact": True, "compile": False}, "--exact --no-compile"),
        ({"clip_norm": 1.0, "label_smoothing": 0.1}, "--clip-norm 1 --label-smoothing 0.1"),
        ({"weights": "my runs/a"}, "--weights 'my runs/a'"),
        ({"weight_decay": 0.001, "warmup_from": 0.01}, "--warmup-from 0.01"),
        ({"time_limit": "1h", "resume": "runs/a"}, "--time-limit 1h --resume runs/a"),
        ({"strategy": "ddp"}, "--strategy ddp"),
        ({"some_new_list": [1.0, 2.5]}, "--some-new-list 1,2.5"),
    ],
)
def test_shows_other_options_as_they_are_given(config: dict[str, Any], options: str) -> None:
    assert banner_rows(started(config, world_size=1))[-1] == ("options", options)


def test_strategy_of_several_processes_is_shown_once() -> None:
    rows = dict(banner_rows(started({"strategy": "ddp"})))
    assert "ddp over gloo" in rows["devices"]
    assert "options" not in rows


def test_every_option_given_is_shown() -> None:
    """A field is either in a row of its own or among the options."""
    assert TrainConfig.model_fields.keys() >= IN_ROWS
    given = {name: STARTED.config[name] for name in TrainConfig.model_fields}
    options = dict(banner_rows(started(given)))["options"]
    others = TrainConfig.model_fields.keys() - IN_ROWS - {"strategy"}
    assert [name for name in others if f"-{name.replace('_', '-')}" not in options] == []
    assert [name for name in IN_ROWS if f"--{name.replace('_', '-')} " in options] == []


def test_idle_cores_stay_visible() -> None:
    rows = banner_rows(started(local_world_size=1, launched_by="torchrun"))
    assert ("", "idle cores: set --threads 8 to use them") in rows


def test_shows_milestones_and_no_warmup() -> None:
    rows = banner_rows(started({"milestones": [3.0, 4.5], "gamma": 0.1}, schedule="step", warmup_updates=0, epochs=6))
    assert ("schedule", "step × 0.1 at epoch 3, 4.5 over 6 epochs of 22 updates = 44, warmup none") in rows


def test_verbose_shows_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    few, everything = (printed(replace(STARTED), 200, verbose=verbose) for verbose in (False, True))
    labels = [{line[:15].strip() for line in lines} - {""} for lines in (few, everything)]
    assert labels[0] - labels[1] == {"schedule"}
    assert labels[1] - labels[0] >= {"classes", "threads", "strategy", "optimizer", "updates", "dropped", "seed"}
