"""A run folder that somebody else has made or changed is data: it names no code that runs, and no value is believed."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from helpers.cli import assert_refused, write_pictures
from helpers.runner import Runner
from PIL import Image

OPTIONS = ("--epochs", "1", "--batch-size", "8", "--device", "cpu")
MINE = """
import pathlib
pathlib.Path("imported").touch()
import torch
from accel_train.data.sources import MemorySource

def build(classes, channels, image_size):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(channels * image_size**2, classes))

def load():
    images = torch.zeros(64, 1, 8, 8, dtype=torch.uint8)
    return tuple(MemorySource(tuple("0123456789"), images, torch.arange(64) % 10) for _ in range(2))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a module and runs with and without the user's own model and data."""
    at_top = Runner(tmp_path_factory.mktemp("untrusted"))
    (at_top.folder / "mine.py").write_text(MINE)
    own = ("--model", "mine:build", "--data", "mine:load")
    for name, words in (("own", own), ("plain", ("--model", "mlp", "--limit", "64"))):
        ended = at_top("train", *OPTIONS, *words, "--output", name)
        assert ended.code == 0, ended.err
    (at_top.folder / "imported").unlink()
    return at_top.folder


@pytest.fixture
def place(run: Runner, made: Path) -> Runner:
    shutil.copytree(made, run.folder, dirs_exist_ok=True)
    return run


def plant(run: Path, *, model: str | None = None, data: str | None = None) -> None:
    """Let the files of a run name code."""
    if model:
        description = json.loads((run / "config.json").read_text())
        (run / "config.json").write_text(json.dumps(description | {"model": model}))
    text = (run / "config.yaml").read_text()
    for field, old, new in (("model", "mlp", model), ("data", "digits", data)):
        if new:
            assert f"\n{field}: {old} " in text
            text = text.replace(f"\n{field}: {old} ", f"\n{field}: {new} ")
    (run / "config.yaml").write_text(text)


@pytest.mark.parametrize("name", ["mine:build", "plain.log.evil:build", "http.server:test"])
def test_model_that_a_run_names_is_not_imported(place: Runner, name: str) -> None:
    shutil.copy(place.folder / "mine.py", place.folder / "plain/log/evil.py")
    plant(place.folder / "plain", model=name)
    refused = place("evaluate", "plain")
    assert_refused(
        refused, f"plain names code of its own: model {name}", f"if you know and trust it, add --model {name}"
    )
    assert not (place.folder / "imported").exists()


def test_repository_of_the_hub_that_a_run_names_is_not_asked_for(place: Runner) -> None:
    plant(place.folder / "plain", model="timm:hf-hub:any/body")
    refused = place("evaluate", "plain")
    assert_refused(refused, "plain names a repository of the hub: timm:hf-hub:any/body", "give a folder that ")


@pytest.mark.parametrize("name", ["mine:load", "plain.log.evil:load", "http.server:test"])
def test_data_that_a_run_names_are_not_imported(place: Runner, name: str) -> None:
    shutil.copy(place.folder / "mine.py", place.folder / "plain/log/evil.py")
    plant(place.folder / "plain", data=name)
    message, hint = f"plain names code of its own: data {name}", f"if you know and trust it, add --data {name}"
    assert_refused(place("evaluate", "plain"), message, hint)
    assert not (place.folder / "imported").exists()


def test_own_model_and_data_are_used_when_the_user_names_them(place: Runner) -> None:
    assert_refused(place("evaluate", "own"), "own names code of its own: model mine:build")
    assert_refused(place("evaluate", "own", "--model", "mine:build"), "own names code of its own: data mine:load")
    assert not (place.folder / "imported").exists()
    named = place("evaluate", "own", "--model", "mine:build", "--data", "mine:load", "--json")
    assert named.code == 0, named.err
    assert named.records[0]["images"] == 64
    other_data = place("evaluate", "own", "--model", "mine:build", "--data", "digits")
    assert other_data.code == 0, other_data.err


def test_model_without_effect_is_refused(place: Runner) -> None:
    for name in ("cnn", "mine:build"):
        assert_refused(place("evaluate", "plain", "--model", name), f"--model {name}, but that of plain is mlp")


@pytest.mark.parametrize("name", ["mine:build", "plain.log.evil:build", "http.server:test"])
def test_config_file_of_a_run_imports_no_code(place: Runner, name: str) -> None:
    shutil.copy(place.folder / "mine.py", place.folder / "plain/log/evil.py")
    plant(place.folder / "plain", model=name)
    words = ("train", *OPTIONS, "--config", "plain/config.yaml", "--output", "new")
    assert_refused(
        place(*words),
        f"plain/config.yaml names code of its own: model {name}",
        f"if you know and trust it, add --model {name}",
    )
    assert not (place.folder / "imported").exists()
    assert not (place.folder / "new").exists()


def test_config_file_of_a_run_may_name_what_the_command_line_names(place: Runner) -> None:
    words = ("train", *OPTIONS, "--config", "own/config.yaml", "--output", "new")
    assert_refused(place(*words, "--model", "mine:build"), "own/config.yaml names code of its own: data mine:load")
    named = place(*words, "--model", "mine:build", "--data", "mine:load")
    assert named.code == 0, named.err
    shutil.copy(place.folder / "own/config.yaml", place.folder / "mine.yaml")  # now a file of the user
    again = place("train", *OPTIONS, "--config", "mine.yaml", "--output", "newer")
    assert again.code == 0, again.err


def test_code_in_a_run_folder_is_refused_even_if_it_is_named(place: Runner) -> None:
    plain = place.folder / "plain"
    shutil.copy(place.folder / "mine.py", plain / "log/evil.py")
    (plain / "log/__init__.py").write_text(MINE)
    plant(plain, model="plain.log.evil:build")
    assert_refused(
        place("evaluate", "plain", "--model", "plain.log.evil:build"),
        f"plain is in {plain}, the folder of a run",
        "nothing is imported from there",
    )
    plant_own = ("train", *OPTIONS, "--data", "plain.log.evil:load", "--output", "new")
    assert_refused(place(*plant_own), f"plain is in {plain}, the folder of a run")
    shutil.copy(plain / "log/evil.py", plain / "evil.py")
    inside = Runner(plain)("evaluate", ".", "--model", "evil:build")
    assert_refused(inside, "--model evil:build", f"nothing is imported from {plain}, the folder of a run")
    assert not list(place.folder.rglob("imported"))


def test_run_with_own_code_is_resumed_by_its_command(place: Runner) -> None:
    own = ("--model", "mine:build", "--data", "mine:load")
    resumed = place("train", "--epochs", "2", *OPTIONS[2:], *own, "--output", "own")
    assert resumed.code == 0, resumed.err
    assert re.search(r"^resumed at epoch \d of \d, update 8$", resumed.out, re.MULTILINE)
    resume = ("train", "--epochs", "3", *own[:2], "--resume", "own")
    assert_refused(place(*resume), "own names code of its own: data mine:load", "add --data mine:load")
    digits = place(*resume, "--data", "digits")
    assert_refused(digits, "own holds a run of another configuration: --data digits instead of mine:load")


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"image_size": "8"}, "image_size is '8': must be a whole number"),
        ({"image_size": 10**30}, "image_size is 1000000000000000000000000000000: must be at most"),
        ({"std": [0.0]}, "std.0 is 0.0: must be greater than 0"),
        ({"classes": {"a": 1}}, "classes is {'a': 1}: input should be a valid tuple"),
        ({"model": "\x1b]0;owned\x07", "matches": 5}, "matches is 5: input should be a valid tuple"),
        ({"pickle": "\x1b[2J"}, "pickle is unknown"),
    ],
)
def test_description_with_a_wrong_value_is_refused(place: Runner, changed: dict[str, object], problem: str) -> None:
    path = place.folder / "plain/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    assert_refused(place("evaluate", "plain"), f"plain/config.json is damaged: {problem}")


def test_weights_of_another_model_are_refused(place: Runner) -> None:
    path = place.folder / "plain/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"image_size": 16}))
    assert_refused(
        place("evaluate", "plain"), "the weights in plain are not those of its config.json", "size mismatch for"
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"model": "wide_resnet_9994_1000"}, "the model is far larger"),
        ({"model": "wide_resnet_9994_1"}, "the model is far larger"),
        ({"model": "cnn", "image_size": 1000}, "the model is far larger"),
        ({"model": "vit_h_14", "image_size": 224}, "the model is far larger"),
        ({"image_size": 65536}, ""),  # the system refuses 4 TB itself
    ],
)
def test_model_larger_than_its_weights_is_not_built(place: Runner, changed: dict[str, object], problem: str) -> None:
    path = place.folder / "plain/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    refused = place("evaluate", "plain")
    assert_refused(refused, f"the weights in plain are not those of its config.json: {problem}")


@pytest.mark.parametrize("name", ["config.json", "config.yaml", "model.safetensors"])
def test_evaluation_does_not_wait_for_a_fifo(place: Runner, name: str) -> None:
    (place.folder / "plain" / name).unlink()
    os.mkfifo(place.folder / "plain" / name)
    assert_refused(place("evaluate", "plain"), f"plain/{name}", "it is a FIFO")


def test_names_out_of_files_are_printed_escaped(place: Runner) -> None:
    name = "\x1b[2Jrun\x07\u202e"
    (place.folder / "plain").rename(place.folder / name)
    shown = "\\x1b[2Jrun\\x07\\u202e"
    evaluated = place("evaluate", name)
    assert evaluated.code == 0, evaluated.err
    assert evaluated.out.startswith(f"{shown} (last) on digits: 64 images")
    (place.folder / name / "config.json").write_text('{"format": "\\u001b[31m"}')
    assert_refused(place("evaluate", name), f"{shown}/config.json has format '\\x1b[31m'")
    resumed = place("train", "--epochs", "2", *OPTIONS[2:], "--output", name)
    assert all(glyph.isprintable() or glyph == "\n" for glyph in resumed.out + resumed.err)


def test_names_of_folders_and_classes_are_printed_escaped(run: Runner) -> None:
    data, name = "pics\x1b[31m", "run\x1b[3m"
    write_pictures(run.folder / data, {"a\x1b[2J\x07\u202e\r": 6, "b": 6}, size=12)
    train = ("train", *OPTIONS[2:], "--data", data, "--model", "mlp", "--image-size", "8", "--workers", "0")
    commands = [(*train, "--epochs", "1", "--output", name), ("evaluate", name), ("pack", data, "packed\x1b[3m")]
    ended = [run(*command) for command in commands]
    (run.folder / data / "b/0.png").unlink()
    ended += [run("evaluate", name), run(*train, "--epochs", "2", "--output", name)]
    (run.folder / data / "b/1.png").write_text("no picture")
    ended += [run("evaluate", name), run("pack", data, "packed\x1b[3m")]
    assert [each.code for each in ended] == [0, 0, 0, 0, 2, 0, 2]
    for text in (each.out + each.err for each in ended):
        assert all(glyph.isprintable() or glyph == "\n" for glyph in text), text


def test_evaluation_downloads_nothing_to_a_folder_that_a_run_names(place: Runner) -> None:
    path, victim = place.folder / "plain/config.yaml", place.folder / "victim"
    text = path.read_text().replace("data: digits", "data: mnist").replace("data_dir: null", f"data_dir: {victim}")
    path.write_text(text)
    assert_refused(
        place("evaluate", "plain"), f"cannot get mnist in {victim}: Dataset not found", "that holds them as --data-dir"
    )
    assert not victim.exists()


@pytest.mark.parametrize("shard", ["../precious.txt", "ABSOLUTE"])
def test_pack_removes_no_file_that_a_manifest_names(run: Runner, shard: str) -> None:
    precious = run.folder / "precious.txt"
    precious.write_text("mine")
    for name in ("a", "b"):
        (run.folder / "pics" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(run.folder / "pics" / name / "0.png")
    assert run("pack", "pics", "packed", "--side", "8").code == 0
    manifest = run.folder / "packed/pack.json"
    record = json.loads(manifest.read_text())
    record["shards"] |= {shard.replace("ABSOLUTE", str(precious)): {"sha256": "", "bytes": 4}}
    manifest.write_text(json.dumps(record))
    assert_refused(run("pack", "pics", "packed", "--side", "4"), "packed/pack.json is damaged", "is no name of a shard")
    assert precious.read_text() == "mine"
