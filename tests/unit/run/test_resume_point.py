"""The resume point is found from files, and a run is the same if fields that change its result are equal."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.descriptions import CONTENTS, description

from accel_train.checkpoints import store
from accel_train.checkpoints.run_folder import config_text, write
from accel_train.config.options import PLACEMENT, EvaluateConfig, ResolvedConfig, TrainConfig
from accel_train.errors import UserError
from accel_train.run.resume_point import (
    ResumePoint,
    decisive_options,
    decisive_values,
    differences,
    fill_from_run,
    find_resume_point,
    same_run,
)

CONFIG = ResolvedConfig(
    model="mlp",
    optimizer="sgd",
    epochs=3,
    augment="none",
    batch_size=8,
    warmup_epochs=0.5,
    lr=0.1,
    lr_scaling="none",
    weight_decay=0,
    precision="fp32",
)
FOUND = {"global_batch_size": 16, "image_size": 8}
"""What data and model decide."""


def stored(**changed: Any) -> dict[str, Any]:
    return CONFIG.model_dump(mode="json") | FOUND | changed


def make_run(folder: Path, *updates: int, finished: bool = False, **changed: Any) -> Path:
    """Make the folder of a run with these checkpoints."""
    folder.mkdir(parents=True)
    write(folder, config_text(CONFIG.model_dump() | FOUND | changed, {}, PLACEMENT), description(), None)
    for update in updates:
        store.commit(store.begin(folder / "checkpoints", update, "run"))
    if finished:
        (folder / "model.safetensors").touch()
    return folder


def find(output: Path | None = None, resume: str = "auto", same: bool = True) -> ResumePoint:
    return find_resume_point(output, resume, "digits_cnn", lambda point: same)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("processes", 2), ("accumulate", 3), ("threads", 2), ("device", "cuda"), ("timeout", 9)),
        *(("workers", "5"), ("cache", "ram")),
        *(("strategy", "ddp"), ("backend", "nccl"), ("output", Path("x")), ("resume", "never"), ("time_limit", "1h")),
        *(("epochs", 9), ("data_dir", Path("x")), ("log_every", 1), ("watch_every", 0), ("save_every", "3updates")),
        *(("keep", 9), ("on_nan", "rollback")),
    ],
)
def test_run_with_other_placement_is_the_same(field: str, value: Any) -> None:
    changed = CONFIG.model_copy(update={field: value})
    assert differences(changed, stored()) == []
    assert getattr(same_run(changed, changed.epochs, stored(), Path("runs/a")), field) == (
        None if field == "accumulate" else value  # follows from the stored batch sizes
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("lr", 0.2), ("seed", 1), ("model", "cnn"), ("batch_size", 4), ("augment", "light"), ("ema", 9.0)),
        *(("global_batch_size", 32), ("image_size", 9), ("precision", "bf16"), ("exact", True), ("patience", 3)),
    ],
)
def test_run_with_another_result_is_not_the_same(field: str, value: Any) -> None:
    changed = CONFIG.model_copy(update={field: value})
    was = stored()[field]
    shown, now = "unset" if was is None else was, 9 if value == 9.0 else value
    assert differences(changed, stored()) == [(field, was, value)]
    option = "--" + field.replace("_", "-")
    for given, words in (({field}, ""), (set(), " (not given)")):
        with pytest.raises(UserError) as refused:
            same_run(changed, None, stored(), Path("runs/a b"), given=given)
        assert (refused.value.message, refused.value.hint) == (
            f"runs/a b holds a run of another configuration: {option} {now}{words} instead of {shown}",
            "`accel_train train --resume 'runs/a b'` continues that run; give another --output to start a new one",
        )


def test_all_differences_are_listed_in_order() -> None:
    changed = CONFIG.model_copy(update={"seed": 1, "lr": 0.2, "processes": 2})
    assert differences(changed, stored()) == [("lr", 0.1, 0.2), ("seed", 0, 1)]


def test_defaults_that_follow_from_what_is_given_are_not_blamed() -> None:
    changed = CONFIG.model_copy(update={"lr": 0.2, "lr_scaling": "linear", "lr_base_batch": 256})
    with pytest.raises(UserError) as refused:
        same_run(changed, None, stored(), Path("runs/a"), given={"lr", "epochs"})
    assert refused.value.message == "runs/a holds a run of another configuration: --lr 0.2 instead of 0.1"


def test_values_that_data_and_model_decided_are_kept() -> None:
    assert same_run(CONFIG, None, stored(), Path("runs/a")).model_dump() == CONFIG.model_dump() | FOUND


def test_name_of_the_data_need_not_be_compared() -> None:
    renamed = CONFIG.model_copy(update={"data": "elsewhere/pics"})
    before = stored(data="pics")
    assert differences(renamed, before) == [("data", "pics", "elsewhere/pics")]
    assert differences(renamed, before, compare_data=False) == []
    assert same_run(renamed, None, before, Path("runs/a"), compare_data=False).data == "elsewhere/pics"


def test_batch_size_that_a_search_found_is_kept() -> None:
    searching = CONFIG.model_copy(update={"auto_micro_batch": True})
    before = stored(auto_micro_batch=True, batch_size=2)
    assert differences(searching, before) == []
    assert same_run(searching, None, before, Path("runs/a")).batch_size == 2


def test_checkpoints_store_the_values_that_decide_the_result() -> None:
    values = decisive_values(CONFIG)
    assert (values["lr"], values["seed"], values["batch_size"]) == (0.1, 0, 8)
    assert values.keys().isdisjoint({"epochs", "output", "workers", "data", "image_size", "global_batch_size"})
    resumed = same_run(CONFIG, 9, stored(), Path("runs/a"))
    assert json.loads(json.dumps(decisive_values(resumed))) == values
    searching = CONFIG.model_copy(update={"auto_micro_batch": True})
    assert "batch_size" not in decisive_values(searching)


def test_processes_must_agree_on_options_that_are_no_defaults() -> None:
    asked = TrainConfig(data="digits", lr=0.25, exact=True, seed=0, output=Path("a"), timeout=9, workers="2")
    assert decisive_options(asked) == {"--lr": "0.25", "--exact": "True"}
    assert decisive_options(EvaluateConfig(weights="best", device="cpu", data="x")) == {"--weights": "best"}


def test_stored_config_that_cannot_be_right_is_refused_by_its_file() -> None:
    folder = make_run(Path("run"), 3)
    text = (folder / "config.yaml").read_text()
    for old, new, message in (
        ("epochs: 3", "epochs: -3", "--epochs -3 in run/config.yaml: must be greater than 0"),
        ("epochs: 3", "", "--epochs is missing in run/config.yaml"),
        ("batch_size: 8", "batch_size: [8]", "--batch-size [8] in run/config.yaml: must be a whole number"),
        ("epochs: 3", "epochs: 1" + "0" * 30, "run/config.yaml: must be at most"),
    ):
        (folder / "config.yaml").write_text(text.replace(f"\n{old} ", f"\n{new} "))
        with pytest.raises(UserError) as refused:
            find(folder)
        assert message in refused.value.message


@pytest.mark.parametrize(("asked", "then"), [(None, 3), (3, 3), (9, 9)])
def test_run_can_be_extended(asked: int | None, then: int) -> None:
    assert same_run(CONFIG, asked, stored(), Path("runs/a")).epochs == then


def test_run_cannot_be_shortened() -> None:
    with pytest.raises(UserError, match="--epochs 2 is fewer than the 3 of the run in runs/a"):
        same_run(CONFIG, 2, stored(), Path("runs/a"))


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_new_or_empty_folder_starts_a_run(resume: str) -> None:
    Path("empty").mkdir()
    for name in ("new", "empty"):
        assert find(Path(name), resume) == ResumePoint(Path(name))


def test_run_that_has_saved_is_resumed() -> None:
    folder = make_run(Path("run"), 3, 6)
    found = find(folder)
    assert (found.folder, found.source, found.checkpoint, found.contents) == (folder, folder, None, CONTENTS)
    assert found.stored
    assert {name: found.stored[name] for name in ("model", "batch_size", *FOUND)} == FOUND | {
        "model": "mlp",
        "batch_size": 8,
    }


def test_run_that_has_not_saved_starts_from_scratch() -> None:
    assert find(make_run(Path("run"))) == ResumePoint(Path("run"))


def test_resume_never_does_not_overwrite_a_run() -> None:
    with pytest.raises(UserError, match="--output run holds a run"):
        find(make_run(Path("run"), 3), "never")


@pytest.mark.parametrize(
    ("finished", "same", "resume", "number"),
    [
        (False, True, "auto", 1),
        (True, True, "auto", 2),
        (False, False, "auto", 2),
        (False, True, "never", 2),
    ],
    ids=["unfinished", "finished", "another run", "never"],
)
def test_latest_run_is_resumed_if_unfinished_and_the_same(finished: bool, same: bool, resume: str, number: int) -> None:
    make_run(Path("runs/digits_cnn_001"), 3, finished=finished)
    found = find(None, resume, same)
    assert found.folder == Path(f"runs/digits_cnn_00{number}")
    assert (found.stored is not None) == (number == 1)


def test_unfinished_run_is_resumed_after_other_runs() -> None:
    """The command that an interrupted run has printed still resumes it."""
    for number, (lr, finished) in enumerate([(1, False), (2, False), (1, False), (3, True), (2, False)], start=1):
        make_run(Path(f"runs/digits_cnn_{number:03d}"), 3, finished=finished, lr=lr)

    def resumed(lr: float) -> str:
        def same(point: ResumePoint) -> bool:
            return point.stored is not None and point.stored["lr"] == lr

        return find_resume_point(None, "auto", "digits_cnn", same).folder.name

    assert [resumed(lr) for lr in (1, 2, 3)] == ["digits_cnn_003", "digits_cnn_005", "digits_cnn_006"]
    shutil.rmtree("runs/digits_cnn_001")
    assert [resumed(lr) for lr in (1, 2, 3)] == ["digits_cnn_003", "digits_cnn_005", "digits_cnn_006"]


def test_only_the_latest_run_must_be_readable() -> None:
    make_run(Path("runs/digits_cnn_001"), 3)
    damaged = make_run(Path("runs/digits_cnn_002"), 3) / "config.yaml"
    damaged.write_text("lr: 0.1\nof_another_version: 1\n")
    with pytest.raises(UserError, match=r"unknown key 'of_another_version' in runs/digits_cnn_002/config\.yaml"):
        find()
    make_run(Path("runs/digits_cnn_003"), 3, finished=True)
    assert find().folder == Path("runs/digits_cnn_001")


def test_named_run_or_checkpoint_is_resumed_also_elsewhere() -> None:
    folder = make_run(Path("run"), 3, 6)
    checkpoint = folder / "checkpoints" / "update_000003"
    for resume, output, expected in (
        (folder, None, (folder, folder, None)),
        (checkpoint, None, (folder, folder, checkpoint)),
        (checkpoint, Path("new"), (Path("new"), folder, checkpoint)),
    ):
        found = find(output, str(resume))
        assert (found.folder, found.source, found.checkpoint) == expected
        assert found.stored


@pytest.mark.parametrize(
    ("place", "resume", "source"),
    [
        (".", "run/checkpoints/update_000003/", "run"),
        ("run", "checkpoints/update_000003", "."),
        ("run/checkpoints", "update_000003", ".."),
        ("run/checkpoints", "../checkpoints/update_000003", ".."),
        ("run/checkpoints/update_000003", ".", "../.."),
    ],
)
def test_checkpoint_may_be_named_from_anywhere(place: str, resume: str, source: str) -> None:
    make_run(Path("run"), 3)
    os.chdir(place)
    found = find(Path("/new"), resume)
    assert found.source == Path(source)
    assert found.checkpoint == Path(source, "checkpoints/update_000003")
    assert found.stored


@pytest.mark.parametrize("name", ["update_best", "update_7"])
def test_run_may_be_named_like_a_checkpoint(name: str) -> None:
    folder = make_run(Path(name), 3)
    assert find(None, name).source == folder
    assert find(None, f"{name}/checkpoints/update_000003").source == folder


def test_copy_of_a_checkpoint_under_another_name_is_none() -> None:
    """Its number decides what else is set aside."""
    checkpoint = make_run(Path("run"), 3) / "checkpoints" / "update_000003"
    checkpoint.rename(copy := checkpoint.with_name("update_000003_copy"))
    with pytest.raises(UserError, match="update_000003_copy is no run and no checkpoint of one"):
        find(Path("new"), str(copy))


def test_what_cannot_be_resumed_is_rejected() -> None:
    checkpoint = make_run(Path("run"), 3) / "checkpoints" / "update_000003"
    make_run(Path("other"))
    (checkpoint / "MANIFEST.json").unlink()
    Path("empty").mkdir()
    for resume, output, message in (
        (Path("missing"), None, "--resume missing is no run"),
        (Path("empty"), None, "--resume empty is no run"),
        (checkpoint.with_name("update_000009"), None, "update_000009 is no run and no checkpoint"),
        (checkpoint, None, "MANIFEST.json is missing"),
        (Path("run"), Path("other"), "--output other holds another run"),
    ):
        with pytest.raises(UserError, match=message):
            find(output, str(resume))


def filled(**given: Any) -> tuple[TrainConfig, dict[str, str]]:
    """Return the config and origins of a command line that has these options."""
    return fill_from_run(TrainConfig(**given), dict.fromkeys(given, "flag"))


def test_named_run_gives_the_values_that_are_not_given() -> None:
    make_run(Path("run"), 3, seed=7, keep=5, data_dir="sets", milestones=[2.5], schedule="step", gamma=0.5)
    config, origins = filled(resume="run", epochs=9, device="cpu", log_every=1)
    assert (config.model, config.lr, config.seed, config.global_batch_size) == ("mlp", 0.1, 7, 16)
    assert (config.keep, config.data_dir, config.milestones) == (5, Path("sets"), (2.5,))
    assert (config.epochs, config.device, config.log_every, config.resume) == (9, "cpu", 1, "run")
    assert {name: origins[name] for name in ("seed", "epochs", "device")} == {
        **{"seed": "from the run", "epochs": "flag", "device": "flag"}
    }


def test_placement_is_not_taken_from_a_run() -> None:
    folder = make_run(Path("run"), 3)
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(re.sub(r"^# (?=threads|processes|workers)", "", text, flags=re.M))
    config, origins = filled(resume="run")
    assert (config.processes, config.threads, config.workers) == (None, None, "auto")
    assert not origins.keys() & (PLACEMENT - {"resume"})


def test_checkpoint_of_a_run_gives_its_values() -> None:
    make_run(Path("run"), 3, 6, seed=7)
    assert filled(resume="run/checkpoints/update_000003")[0].seed == 7


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_run_that_is_not_named_gives_no_values(resume: str) -> None:
    make_run(Path("run"), 3, seed=7)
    config, origins = filled(resume=resume, output=Path("run"))
    assert (config.seed, origins) == (0, {"resume": "flag", "output": "flag"})


@pytest.mark.parametrize(
    ("given", "listed"),
    [
        ({"lr": 0.5}, "--lr 0.5 instead of 0.1"),
        ({"seed": 1, "ema": 9.0}, "--ema 9 instead of unset, --seed 1 instead of 0"),
        ({"batch_size": 4, "epochs": 9}, "--batch-size 4 instead of 8"),
        ({"schedule": "step", "milestones": (1.0,)}, "--milestones 1 instead of unset, --schedule step instead of"),
        ({"global_batch_size": 32}, "--global-batch-size 32 instead of 16"),
        ({"exact": True}, "--exact True instead of False"),
    ],
)
def test_value_given_beside_a_named_run_must_be_the_runs(given: dict[str, Any], listed: str) -> None:
    make_run(Path("run"), 3)
    with pytest.raises(UserError) as refused:
        filled(resume="run", **given)
    assert refused.value.message.startswith(f"run holds a run of another configuration: {listed}")
    assert refused.value.hint == (
        "`accel_train train --resume run` continues that run; leave out --resume to start a new one"
    )


def test_values_of_the_run_may_be_repeated() -> None:
    make_run(Path("run"), 3)
    given = {"lr": 0.1, "batch_size": 8, "warmup_epochs": 0.5, "precision": "fp32", "seed": 0, "image_size": 8}
    config, origins = filled(resume="run", **given)
    assert (config.lr, origins["lr"]) == (0.1, "flag")


def test_batch_size_of_a_search_may_be_given_beside_its_run() -> None:
    make_run(Path("run"), 3, auto_micro_batch=True, batch_size=2)
    assert filled(resume="run", auto_micro_batch=True)[0].batch_size == 2


@pytest.mark.parametrize("name", ["model", "data"])
def test_code_that_a_run_names_must_be_given(name: str) -> None:
    make_run(Path("run"), 3, **{name: "mine:make"})
    with pytest.raises(UserError) as refused:
        filled(resume="run")
    assert refused.value.message == f"run names code of its own: {name} mine:make"
    assert refused.value.hint == f"if you know and trust it, add --{name} mine:make"
    assert getattr(filled(resume="run", **{name: "mine:make"})[0], name) == "mine:make"


def test_data_may_be_given_elsewhere() -> None:
    make_run(Path("run"), 3, data="pics")
    assert filled(resume="run")[0].data == "pics"
    assert filled(resume="run", data="elsewhere/pics")[0].data == "elsewhere/pics"  # compared by content later
