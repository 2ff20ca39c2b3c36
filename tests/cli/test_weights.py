"""Weights by name are downloaded once, printed, stored, used in training and evaluation, and needed no more then."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import timm
import torch
from helpers.file_server import serving
from helpers.runner import Runner, read_metrics

PATH = "timm/test_resnet.r160_in1k/resolve/main/model.safetensors"
DATA = ("--data", "synthetic:64,1,8,8,3", "--batch-size", "8", "--device", "cpu")
MODEL = ("--model", "timm:test_resnet", "--image-size", "32")
NOTES = (
    "note: head fc replaced: 1,000 → 3 classes\n",
    "note: images as for the weights: 32 pixels (its weights: 160), bilinear, mean 0.5 0.5 0.5, std 0.5 0.5 0.5\n",
)


@pytest.fixture(scope="module")
def published() -> bytes:
    torch.manual_seed(1)
    return safetensors.torch.save(timm.create_model("test_resnet").state_dict())


def test_weights_of_the_hub_are_downloaded_once_and_then_in_the_run(run: Runner, published: bytes) -> None:
    with serving(**{PATH: published}) as hub:
        words = ("train", *DATA, *MODEL, "--weights", "DEFAULT", "--epochs", "1", "--output", "run")
        trained = run(*words, processes=2, HF_ENDPOINT=hub.address)
    assert trained.code == 0, trained.err
    assert all(trained.out.count(note) == 1 for note in NOTES), trained.out
    assert [path for method, path, _ in hub.requests if method == "GET" and "resolve" in path] == [f"/{PATH}"]
    described = json.loads((run.folder / "run/config.json").read_text())
    assert described["mean"] == described["std"] == [0.5, 0.5, 0.5]
    assert (described["image_size"], described["adapted_to"], described["channels"]) == (32, 160, 3)
    assert "weights: DEFAULT  # flag\n" in (run.folder / "run/config.yaml").read_text()
    evaluated = run("evaluate", "run", "--device", "cpu")
    assert evaluated.code == 0, evaluated.err
    assert f"accuracy {_last_accuracy(run.folder / 'run'):.4f}" in " ".join(evaluated.out.split())
    longer = run("train", "--resume", "run", "--epochs", "2", timeout=300)
    assert longer.code == 0, longer.err
    assert "resumed" in longer.out
    assert json.loads((run.folder / "run/config.json").read_text()) == described


def test_server_that_cannot_be_reached_is_one_error_on_two_processes(run: Runner) -> None:
    words = ("--model", "squeezenet1_1", "--data", "synthetic:64,3,32,32,3", "--weights", "DEFAULT", "--device", "cpu")
    refused = run("train", *words, processes=2, https_proxy="http://127.0.0.1:9", TORCH_HOME=str(run.folder))
    assert refused.code == 2
    name = "squeezenet1_1-b8a52dc0.pth"
    (first, error, hint) = refused.err.splitlines()
    url = f"https://download.pytorch.org/models/{name}"
    assert first == f"downloading {url} to {run.folder}/hub/checkpoints"
    assert error.startswith(f"error: cannot download {url}: ")
    assert hint == f"hint: put the file of {url} there: {run.folder}/hub/checkpoints/{name}"


def _last_accuracy(folder: Path) -> float:
    accuracy: float = read_metrics(folder, "epoch")[-1]["val_accuracy"]
    return accuracy
