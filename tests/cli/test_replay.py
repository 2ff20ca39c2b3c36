"""`accel_train replay` computes an update again, and compares it with what the run has stored."""

import json
import shutil
from pathlib import Path

import pytest
from helpers.runner import Ended, Runner
from PIL import Image

from accel_train.system.folder_lock import FolderLock

WORDS = ("--data", "digits", "--model", "mlp", "--epochs", "2", "--log-every", "4", "--save-every", "10updates")

PICTURES = """
from itertools import islice
from pathlib import Path
import numpy as np
from accel_train.config.options import TrainConfig
from accel_train.run.build import build_run
from accel_train.run.preview import model_pixels
from accel_train.run.resume_point import ResumePoint
from accel_train.run.update_pictures import pictures_of_update
from accel_train.training.timing import Timing

words = dict(batch_size=16, global_batch_size=64, epochs=2, cutmix=1.0, repeated_augmentation=2)
run = build_run(TrainConfig(data="digits", model="mlp", **words), {}, find=lambda *_: ResumePoint(Path("none")))
for update in (1, 30):
    batches = islice(run.training.batches.micro_batches(update - 1, Timing()), run.plan.micro_batches)
    expected = np.concatenate([model_pixels(batch.images_BCHW, run.data, is_float=False) for batch in batches])
    found = [picture.pixels_HWC for picture in pictures_of_update(run, update)]
    equal = sum(np.array_equal(*pair) for pair in zip(found, expected, strict=True))
    print(f"{update}: {len(found)} images, {equal} equal", len({picture.tobytes() for picture in found}) > 50)
"""
"""Compares the pictures of two updates with the input of the model."""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return a runner in a folder with a finished run of 44 updates, all of whose checkpoints are kept."""
    runner = Runner(tmp_path_factory.mktemp("replay"))
    trained = runner("train", *WORDS, "--keep", "9", "--mixup", "0.2", "--ema", "500", "--output", "run")
    assert trained.code == 0, trained.err
    return runner


def tampered(runner: Runner, name: str, kind: str, update: int, field: str, value: object) -> Ended:
    """Copy the run with another value in a record, and replay an update before that."""
    folder = runner.folder / name
    shutil.copytree(runner.folder / "run", folder)
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    (record,) = [record for record in records if record["kind"] == kind and record["update"] == update]
    (record["ranks"][0] if kind == "epoch_by_rank" else record)[field] = value
    (folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return runner("replay", name, "--update", "18")


def test_update_is_reproduced_from_the_checkpoint_before_it(runner: Runner) -> None:
    before = {path: path.stat().st_mtime_ns for path in (runner.folder / "run").rglob("*")}
    replayed = runner("replay", "run", "--update", "16", "--show", "sheet.png")
    assert (replayed.code, replayed.err) == (0, "")
    first, values, *lines = replayed.out.splitlines()
    assert first == "run: computed updates 11 to 20 from checkpoint update_000010"
    assert values.startswith("update 16: learning rate ")
    assert lines == [
        "  learning rate  equal at updates 12, 16, 20",
        "  images         equal at updates 12, 16, 20",
        "  loss           equal at updates 12, 16, 20",
        "  gradient norm  equal at updates 12, 16, 20",
        "  weights        equal at update 20",
        "update 16 agrees bit for bit: learning rate, images, loss, gradient norm and weights",
        "sheet.png: 64 images of update 16",
    ]
    with Image.open(runner.folder / "sheet.png") as sheet:
        assert min(sheet.size) > 500
    assert {path: path.stat().st_mtime_ns for path in (runner.folder / "run").rglob("*")} == before


def test_pictures_are_those_that_the_model_is_given(run: Runner) -> None:
    ended = run.tasks("-c", PICTURES, environments=[{}])
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines() == ["1: 64 images, 64 equal True", "30: 64 images, 64 equal True"]


def test_update_without_a_checkpoint_before_it_is_computed_from_the_beginning(runner: Runner) -> None:
    (record,) = runner("replay", "run", "--update", "3", "--json").records
    assert (record["checkpoint"], record["first_update"], record["last_update"]) == (None, 1, 10)
    assert (record["agrees"], record["first_difference"], record["values"]["update"]) == (True, None, 3)
    assert [check["update"] for check in record["checks"] if check["quantity"] == "loss"] == [4, 8]


@pytest.mark.slow
def test_extended_run_followed_its_first_schedule_before(run: Runner) -> None:
    for epochs in ("1", "2"):
        assert run("train", *WORDS, "--epochs", epochs, "--output", "run").code == 0
    (record,) = run("replay", "run", "--update", "30", "--json").records
    assert (record["first_update"], record["last_update"]) == (1, 44)
    assert (record["agrees"], record["notes"]) == (True, [])
    assert {check["update"] for check in record["checks"] if check["quantity"] == "learning rate"} >= {20, 24, 44}


def test_damaged_checkpoint_is_not_used(runner: Runner) -> None:
    shutil.copytree(runner.folder / "run", runner.folder / "damaged")
    (runner.folder / "damaged" / "checkpoints" / "update_000040" / "state.json").write_text("{}")
    replayed = runner("replay", "damaged", "--update", "42")
    assert replayed.code == 0
    first, note, *_ = replayed.out.splitlines()
    assert first == "damaged: computed updates 31 to 44 from checkpoint update_000030"
    assert note.startswith("note: checkpoint update_000040 is damaged (state.json has ")
    assert note.endswith("; starting from update_000030")


def test_difference_of_the_last_bit_is_found(runner: Runner) -> None:
    records = map(json.loads, (runner.folder / "run" / "metrics.jsonl").read_text().splitlines())
    norm = next(one["gradient_norm"] for one in records if one["kind"] == "progress" and one["update"] == 20)
    found = tampered(runner, "norm", "progress", 20, "gradient_norm", norm * (1 + 2**-52))
    assert found.code == 1
    assert f"  gradient norm  differs first at update 20: was {norm * (1 + 2**-52)}, is {norm}" in found.out
    assert found.out.endswith("\nnot reproduced: from update 20 on, gradient norm not equal to the last bit\n")


def test_other_weights_after_the_epoch_are_found(runner: Runner) -> None:
    shutil.rmtree(runner.folder / "weights", ignore_errors=True)
    found = tampered(runner, "weights", "epoch_by_rank", 22, "weights", "00ff")
    assert found.code == 0  # weights are known from the checkpoint of update 20
    shutil.rmtree(runner.folder / "weights" / "checkpoints" / "update_000020")
    found = runner("replay", "weights", "--update", "18")
    assert found.code == 1
    assert "  weights        differs first at update 22 (after epoch 1): was 00ff, is " in found.out


def test_what_cannot_be_replayed_is_refused(runner: Runner) -> None:
    run, nowhere = runner.folder / "run", "there is no folder nowhere"
    for words, error, hint in (
        (("run", "--update", "45"), "--update 45: run has done 44 updates", "give one from 1 to 44"),
        (("none", "--update", "1"), "none does not exist", "give the folder of a run: accel_train runs lists"),
        (("run", "--update", "1", "--show", "nowhere/a.png"), f"--show nowhere/a.png: {nowhere}", "make it, or give"),
        (("run", "--update", "0"), "--update 0", ""),
    ):
        refused = runner("replay", *words)
        assert (refused.code, refused.out) == (2, ""), words
        assert refused.err.startswith(f"error: {error}"), refused.err
        assert f"\nhint: {hint}" in refused.err
    lock = FolderLock(run)
    lock.acquire()
    try:
        refused = runner("replay", "run", "--update", "1")
    finally:
        lock.release()
    assert refused.err == "error: a run is writing to run\nhint: wait for its end, or replay a copy of the folder\n"


def test_data_that_have_changed_are_refused(runner: Runner) -> None:
    refused = runner("replay", "run", "--update", "3", "--data", "synthetic:1438,1,8,8,10")
    assert refused.code == 2
    assert refused.err.startswith("error: the data are not those of the run in run: ")


def test_run_folder_is_not_trusted_to_name_code(runner: Runner, tmp_path: Path) -> None:
    shutil.copytree(runner.folder / "run", tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("model: mlp", "model: evil:net"))
    (tmp_path / "evil.py").write_text("open('ran', 'w')\n")
    refused = Runner(tmp_path)("replay", "run", "--update", "3")
    assert refused.code == 2
    assert refused.err.startswith(
        "error: run names code of its own: model evil:net\nhint: if you know and trust it, add --model "
    ), refused.err
    assert not (tmp_path / "ran").exists()
