"""A run that has not finished is evaluated with its best weights, and tells those who ask for others."""

import json
from pathlib import Path

import pytest
from helpers.descriptions import description

from accel_train.checkpoints import run_folder
from accel_train.checkpoints.run_folder import config_text
from accel_train.config.options import PLACEMENT, TrainConfig
from accel_train.config.resolve import resolve
from accel_train.errors import UserError
from accel_train.models.base import Preprocessing
from accel_train.run.weights import check_weights, initial_weights, weights_to_evaluate

LAST, BEST = "model.safetensors", "best.safetensors"
NOTE = "my run has not finished: its best weights so far are evaluated"
OLDER = "my run has not finished: model.safetensors may be from before it was continued"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = Path("my run")
    folder.mkdir()
    return folder


def write(folder: Path, *files: str, records: tuple[str, ...] | None = None) -> None:
    for name in files:
        (folder / name).touch()
    if records is not None:
        lines = (json.dumps({"kind": kind, "epoch": 1}) + "\n" for kind in records)
        (folder / "metrics.jsonl").write_text("".join(lines))


@pytest.mark.parametrize(
    ("files", "records", "asked", "chosen", "notes"),
    [
        ((LAST, BEST), ("run", "epoch", "end"), None, "last", ()),
        ((LAST, BEST), ("run", "epoch", "end"), "best", "best", ()),
        ((BEST,), ("run", "epoch"), None, "best", (NOTE,)),
        ((BEST,), ("run", "epoch", "progress"), None, "best", (NOTE,)),
        ((LAST, BEST), ("run", "epoch", "epoch"), None, "best", (NOTE,)),  # it finished, and was extended
        ((LAST, BEST), ("run", "epoch", "epoch"), "last", "last", (OLDER,)),
        ((LAST, BEST), None, None, "last", ()),
        ((LAST,), ("run", "epoch"), None, "last", (OLDER,)),
    ],
)
def test_best_weights_stand_in_for_the_last_of_an_unfinished_run(
    folder: Path,
    files: tuple[str, ...],
    records: tuple[str, ...] | None,
    asked: str | None,
    chosen: str,
    notes: tuple[str, ...],
) -> None:
    write(folder, *files, records=records)
    assert weights_to_evaluate(folder, asked) == (chosen, notes)


@pytest.mark.parametrize("tail", ['{"kind": "ep', "[1]\n", "\xff\n", "\n\n"])
def test_history_that_cannot_be_read_does_not_matter(folder: Path, tail: str) -> None:
    write(folder, LAST, BEST)
    (folder / "metrics.jsonl").write_text(tail, encoding="latin-1")
    assert weights_to_evaluate(folder, None) == ("last", ())


def test_weights_that_are_not_written_yet_are_refused_with_the_way_to_them(folder: Path) -> None:
    with pytest.raises(UserError) as none:
        weights_to_evaluate(folder, None)
    assert none.value.message == "my run has no weights yet: it ended before its first epoch did"
    assert none.value.hint == "resume it: accel_train train --resume 'my run'"
    write(folder, BEST)
    with pytest.raises(UserError) as last:
        weights_to_evaluate(folder, "last")
    assert last.value.message == "--weights last: my run has not finished, and has no model.safetensors"
    assert last.value.hint == "add --weights best, or resume it: accel_train train --resume 'my run'"


def test_initial_weights_are_those_of_a_finished_run_or_a_file(folder: Path) -> None:
    write(folder, BEST, "any.pt")
    with pytest.raises(UserError) as unfinished:
        initial_weights("mlp", "./my run")
    assert unfinished.value.message == "--weights 'my run' has not finished, and has no model.safetensors"
    assert unfinished.value.hint == "start from its best weights so far: --weights 'my run/best.safetensors'"
    write(folder, LAST)
    assert named("my run") == (str(folder / LAST), ())
    assert named("my run/any.pt") == (str(folder / "any.pt"), ())
    write(folder, records=("run", "end", "epoch"))
    assert named("my run") == (str(folder / LAST), (OLDER,))


def test_weights_are_checked_without_a_download(folder: Path) -> None:
    write(folder, BEST, "any.pt")
    check_weights("mlp", "my run/any.pt")
    check_weights("resnet18", "IMAGENET1K_V1")
    for asked, reason in (("my run", "has not finished"), ("my run/gone.pt", "there is no such file or folder")):
        with pytest.raises(UserError, match=reason):
            check_weights("mlp", asked)


def named(asked: str) -> tuple[str, tuple[str, ...]]:
    weights, notes = initial_weights("mlp", asked)
    return weights.name, notes


def test_preprocessing_and_classes_of_a_run_belong_to_its_weights(folder: Path) -> None:
    write(folder, LAST)
    config, _ = resolve(TrainConfig(eval_crop=0.9), {}, "folder", 100, "fp32")
    run_folder.write(folder, config_text(config.model_dump(), {}, PLACEMENT), description(adapted_to=28), None)
    weights, _ = initial_weights("mlp", "my run/model.safetensors")
    assert weights.preprocessing == Preprocessing(32, (0.1 + 0.2,), (1 / 3,), "bicubic", 0.9, "crop", adapted_to=28)
    assert weights.classes == ("a", "b")
    assert weights.options == "--model mlp, --image-size 32"
    config, _ = resolve(TrainConfig(fit="pad"), {}, "folder", 100, "fp32")
    run_folder.write(folder, config_text(config.model_dump(), {}, PLACEMENT), description(), None)
    found = initial_weights("mlp", "my run")[0].preprocessing
    assert found
    assert (found.crop, found.fit) == (None, "pad")
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="has no format"):
        initial_weights("mlp", "my run")


def test_description_of_another_program_does_not_count(folder: Path) -> None:
    write(folder, LAST)
    (folder / "config.json").write_text('{"architecture": "resnet18"}')
    weights, _ = initial_weights("mlp", "my run")
    assert (weights.preprocessing, weights.classes) == (None, None)


UNKNOWN = {
    "nowhere": (
        "--weights nowhere: there is no such file or folder, and resnet18 has no published weights of that name",
        "choose DEFAULT, IMAGENET1K_V1, none, or give a run folder or a file",
    ),
    "default": (
        "--weights default: there is no such file or folder, and resnet18 has no published weights of that name",
        "did you mean DEFAULT?",
    ),
    "./DEFAULT": ("--weights ./DEFAULT: there is no such file or folder", "give a run folder or a file of weights"),
}


@pytest.mark.parametrize("asked", UNKNOWN)
def test_unknown_weights_are_an_error_that_lists_the_known_ones(asked: str, folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        initial_weights("resnet18", asked)
    assert (caught.value.message, caught.value.hint) == UNKNOWN[asked]


def test_model_without_published_weights_takes_files_only(folder: Path) -> None:
    with pytest.raises(UserError) as caught:
        initial_weights("cnn", "DEFAULT")
    assert caught.value.message == (
        "--weights DEFAULT: there is no such file or folder, and cnn has no published weights"
    )
    assert caught.value.hint == "give a run folder or a file of weights, or a --model of torchvision or timm"
