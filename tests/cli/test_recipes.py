"""Recipes are listed, printed, and started by name; flags win, and each value tells where it comes from."""

import re
from pathlib import Path

import pytest
import torch
import yaml
from helpers.cli import Call, assert_refused, in_process, write_pictures
from helpers.runner import Runner
from torchvision.models import resnet18

from accel_train.recipes.read import find, names

FEW = ("--global-batch-size", "8", "--batch-size", "4")
TINY = ("--global-batch-size", "16", "--batch-size", "8")
SMALL = {
    "cifar10_94": (*TINY, "--data", "synthetic:32,3,8,8,10", "--model", "airbench_8_8_8"),
    "digits": (*TINY, "--limit", "32"),
    "fashion_mnist_fast": (*TINY, "--data", "synthetic:32,1,8,8,10"),
    "fashion_mnist_lab": (*TINY, "--data", "synthetic:32,1,8,8,10"),
    "finetune_resnet50": (*FEW, "--model", "resnet18", "--weights", "resnet18.pth", "--image-size", "64"),
    "imagenet_1hour": (
        *("--data", "pictures", "--model", "resnet18", "--image-size", "32"),
        *(*FEW, "--milestones", "1.5"),
    ),
}
"""By recipe: options that make it small, and replace data that have to be fetched."""


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    return in_process(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("name", names())
def test_recipe_trains_on_two_processes(run: Runner, name: str) -> None:
    if name in ("finetune_resnet50", "imagenet_1hour"):
        for split, count in (("train", 4), ("val", 2)):
            write_pictures(run.folder / "pictures" / split, {"a": count, "b": count})
        torch.save(resnet18().state_dict(), run.folder / "resnet18.pth")
    words = ("train", "--recipe", name, *SMALL[name], "--epochs", "2", "--warmup-epochs", "1", "--output", "run")
    trained = run(*words, processes=2)
    assert trained.code == 0, trained.err
    text = (run.folder / "run" / "config.yaml").read_text(encoding="utf-8")
    stored, lines = yaml.safe_load(text), text.splitlines()
    assert "epochs: 2  # flag" in lines
    values, flags = yaml.safe_load(find(name).text), {word[2:].replace("-", "_") for word in words}
    assert {key: stored[key] for key in values.keys() - flags} == {key: values[key] for key in values.keys() - flags}
    of_recipe = {line.partition(":")[0] for line in lines if line.endswith(f"  # recipe {name}")}
    assert of_recipe == values.keys() - flags


def test_recipes_are_listed_with_what_they_reach(call: Call) -> None:
    listed = call("recipes")
    assert (listed.code, listed.err) == (0, "")
    heading, *rows, last = listed.out.splitlines()
    assert heading.split() == ["recipe", "accuracy", "time", "hardware", "measured", "what", "it", "does"]
    assert [row.split()[0] for row in rows] == names()
    assert re.split(r"\s{2,}", rows[names().index("imagenet_1hour")])[1:5] == [
        "76.3 %",
        "60 min",
        "256 GPUs",
        "not here",
    ]
    assert last == "next: accel_train train --recipe digits"


def test_printed_recipe_is_a_config_file(call: Call, tmp_path: Path) -> None:
    printed = call("recipes", "digits")
    (tmp_path / "mine.yaml").write_text(printed.out, encoding="utf-8")
    by_file, by_name = (call("train", *words, "--print-config") for words in (FILE, RECIPE))
    assert by_name.out == by_file.out.replace("# mine.yaml", "# recipe digits")
    assert by_name.out.count("# recipe digits") == len(yaml.safe_load(printed.out))


FILE, RECIPE = ("--config", "mine.yaml"), ("--recipe", "digits")


@pytest.mark.parametrize("name", ["imagenet_1hour", "finetune_resnet50"])
def test_data_of_a_recipe_that_has_none_are_asked_for(call: Call, name: str) -> None:
    refused = call("train", "--recipe", name, "--device", "cpu", "--dry-run")
    assert_refused(refused, f"the data of recipe {name} are not in the package", "add --data DIR, a folder of pictures")


def test_recipe_that_is_unknown_or_contradicted_is_refused(call: Call) -> None:
    assert_refused(call("train", "--recipe", "digit"), "there is no recipe digit", "did you mean digits?")
    assert_refused(call("recipes", "digit"), "there is no recipe digit", "did you mean digits?")
    refused = call("train", *RECIPE, *FILE)
    assert_refused(refused, "--config mine.yaml and --recipe digits exclude each other", "leave one of them out")
    refused = call("train", *RECIPE, "--batch-size", "0")
    assert_refused(refused, "--batch-size 0: must be greater than 0")
    refused = call("train", "--recipe", "imagenet_1hour", "--schedule", "cosine")
    assert_refused(refused, "--milestones needs --schedule step", "(flags and recipe imagenet_1hour together)")
